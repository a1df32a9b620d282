"""Fresh Python processes in a fraction of a second: forks of one process that has imported the heavy libraries.

Only libraries that read no environment variable of Hugging Face are imported beforehand, so that each process reads
its own: the address of the Hub, the token, the caches, the offline mode.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

IMPORTED = (
    "torch", "torch.distributed.tensor", "torch._dynamo", "numpy", "scipy.stats", "scipy.optimize", "sklearn.metrics",
    "pandas", "pyarrow.parquet", "pyarrow.dataset", "tokenizers", "safetensors.torch", "fsspec", "aiohttp", "PIL.Image",
    "jinja2", "yaml", "requests", "dill", "multiprocess", "pydantic", "rich.console", "typer",
)  # fmt: skip
CDCONV = "import sys; sys.argv = ['cdconv', *{arguments!r}]\nfrom contradiction.__main__ import main\nmain()"


def run(code, *, cwd, env) -> subprocess.CompletedProcess:
    """Runs Python code like ``python -c``; gives exit code, stdout and stderr."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*IMPORTED])
    with tempfile.TemporaryDirectory() as folder:
        streams = [str(Path(folder, name)) for name in ("stdout", "stderr")]
        process = context.Process(target=_execute, args=(code, str(cwd), dict(env), streams))
        process.start()
        process.join()
        stdout, stderr = (Path(path).read_text(encoding="utf-8") for path in streams)
    return subprocess.CompletedProcess(code, process.exitcode, stdout, stderr)


def cdconv(*arguments, cwd, env, before="") -> subprocess.CompletedProcess:
    """Runs the command line, after some code where it is given."""
    return run(before + CDCONV.format(arguments=[*map(str, arguments)]), cwd=cwd, env=env)


def _execute(code, cwd, env, streams):
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        sys.exit(1)
