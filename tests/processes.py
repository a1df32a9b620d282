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


class Process:
    """A running process, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, code, cwd, env, stdin):
        self._folder = tempfile.TemporaryDirectory()
        self._streams = [str(Path(self._folder.name, name)) for name in ("stdin", "stdout", "stderr")]
        Path(self._streams[0]).write_text(stdin, encoding="utf-8")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        self._process = context.Process(target=_execute, args=(code, str(cwd), dict(env), self._streams))
        self._process.start()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self._process.exitcode

    def communicate(self, timeout=None):
        """Waits for the end and gives stdout and stderr."""
        self.wait(timeout)
        return tuple(
            Path(path).read_text(encoding="utf-8") if Path(path).exists() else "" for path in self._streams[1:]
        )


def start(code, *, cwd=".", env=None, stdin="") -> Process:
    """Starts Python code like ``python -c``, by default in this environment."""
    return Process(code, cwd, os.environ if env is None else env, stdin)


def run(code, **options) -> subprocess.CompletedProcess:
    """Runs Python code to its end; options as of :func:`start`."""
    process = start(code, **options)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(code, process.returncode, stdout, stderr)


def cdconv(*arguments, before="", **options) -> subprocess.CompletedProcess:
    """Runs the command line, after some code where it is given; options as of :func:`start`."""
    return run(before + CDCONV.format(arguments=[*map(str, arguments)]), **options)


def start_cdconv(*arguments, before="", **options) -> Process:
    """Starts the command line."""
    return start(before + CDCONV.format(arguments=[*map(str, arguments)]), **options)


def _execute(code, cwd, env, streams):
    for number, (path, flags) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        os.dup2(os.open(path, flags), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # multiprocessing has closed it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        sys.exit(1)
