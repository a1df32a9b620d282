"""New Python processes in a fraction of a second, forked from one process that has imported the heavy libraries.

Only libraries that read no Hugging Face environment variables are imported beforehand, so that each process reads
its own values: the address of the Hub, the token, the caches, the offline mode.
"""

import gc
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
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

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self._process.exitcode

    def communicate(self, timeout=None):
        """Waits for the end and returns stdout and stderr."""
        self.wait(timeout)
        return tuple(
            Path(path).read_text(encoding="utf-8") if Path(path).exists() else "" for path in self._streams[1:]
        )


def start(code, *, cwd=".", env=None, stdin="") -> Process:
    """Starts Python code like ``python -c``, by default with the environment variables of this process."""
    return Process(code, cwd, os.environ if env is None else env, stdin)


def run(code, **options) -> subprocess.CompletedProcess:
    """Runs Python code to its end. The options are those of :func:`start`."""
    process = start(code, **options)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(code, process.returncode, stdout, stderr)


def cdconv(*arguments, before="", **options) -> subprocess.CompletedProcess:
    """Runs the command line, optionally after some code. The options are those of :func:`start`."""
    return run(before + CDCONV.format(arguments=[*map(str, arguments)]), **options)


def start_cdconv(*arguments, before="", **options) -> Process:
    """Starts the command line."""
    return start(before + CDCONV.format(arguments=[*map(str, arguments)]), **options)


def start_two(*arguments, **options) -> list[Process]:
    """Starts the command line as two processes that train together, as a launcher would.

    It avoids `accelerate launch --cpu`, which without MPI silently starts a single process.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {"ACCELERATE_USE_CPU": "true", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        start_cdconv(*arguments, env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}, **options)
        for rank in ("0", "1")
    ]


def wait_for(path: Path, *running: Process, seconds=300) -> bool:
    """Waits until a path exists or a process ends, and returns whether it exists. The machine may be busy."""
    until = time.monotonic() + seconds
    while not path.exists() and all(process.poll() is None for process in running) and time.monotonic() < until:
        time.sleep(0.002)
    return path.exists()


def _execute(code, cwd, env, streams):
    gc.freeze()  # the libraries imported beforehand
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
