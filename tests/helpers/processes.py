"""New Python processes in a fraction of a second, forked from a process that has imported the heavy libraries.

Libraries of Hugging Face read environment variables at import: the address of the Hub, the token, the caches, the
offline mode. They are imported beforehand only for processes that have these values in common with the tests, or with
an environment given to `share_imports`.
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
import urllib.request
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from unittest.mock import patch

LIBRARIES = (
    "torch", "torch.distributed.tensor", "torch._dynamo", "numpy", "scipy.stats", "scipy.optimize", "sklearn.metrics",
    "pandas", "pyarrow.parquet", "pyarrow.dataset", "tokenizers", "safetensors.torch", "fsspec", "aiohttp", "PIL.Image",
    "jinja2", "yaml", "requests", "dill", "multiprocess", "pydantic", "rich.console", "typer",
)  # fmt: skip
COMMANDS = (
    "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert", "datasets", "accelerate", "contradiction.cli", "contradiction.detector",
    "contradiction.training.loop",
)  # fmt: skip
STREAMS = ("stdin", "stdout", "stderr")
CDCONV = "import sys; sys.argv = ['cdconv', *{arguments!r}]\nfrom contradiction.__main__ import main\nmain()"
# Before the command line: its worker processes are forked from the server too, instead of importing the libraries.
QUICK_WORKERS = """
from multiprocessing import forkserver, get_context
from contradiction.chats import detection
forkserver._forkserver.ensure_running = lambda: None  # the server that this process was forked from
detection.get_context = lambda _: get_context("forkserver")
"""


class Process:
    """A running process, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, code, cwd, env, stdin, output, pipes, new_imports):
        self._folder = tempfile.TemporaryDirectory()
        self._paths = [str(Path(self._folder.name, name)) for name in STREAMS]
        if output:
            self._paths[1:] = [str(output)] * 2
        streams = [*self._paths]
        if isinstance(stdin, str):
            Path(streams[0]).write_text(stdin, encoding="utf-8")
        else:
            streams[0] = Connection(os.dup(stdin))
        for name in pipes:
            reader, writer = os.pipe()
            own, given = (writer, reader) if name == "stdin" else (reader, writer)
            setattr(self, name, os.fdopen(own, "wb" if name == "stdin" else "rb"))
            streams[STREAMS.index(name)] = Connection(given)  # a descriptor that can be sent to a process
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=_execute, args=(code, str(cwd), dict(env), streams))
        imports = None if new_imports else read_at_import(env)
        with patch(*connection(imports if imports in SHARED else None)):
            self._process.start()
        for stream in streams:
            if isinstance(stream, Connection):
                stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in STREAMS:
            if hasattr(self, name):
                getattr(self, name).close()
        self.wait()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self._process.pid, number)

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self._process.exitcode

    def communicate(self, timeout=None):
        """Waits for the end and returns stdout and stderr."""
        self.wait(timeout)
        return tuple(Path(path).read_text(encoding="utf-8") if Path(path).exists() else "" for path in self._paths[1:])


def start(code, *, cwd=".", env=None, stdin="", output=None, pipes=(), new_imports=False) -> Process:
    """Starts Python code like ``python -c``, by default with the environment variables of this process.

    Args:
        code: the code.
        cwd: the folder in which it runs.
        env: its environment variables.
        stdin: its input: a text, or the descriptor of a file.
        output: a file for all that it prints.
        pipes: those of `stdin`, `stdout` and `stderr` that are pipes; the process has their other ends as attributes.
        new_imports: whether the process itself imports `contradiction` and the libraries of Hugging Face.
    """
    return Process(code, cwd, os.environ if env is None else env, stdin, output, pipes, new_imports)


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


def start_module(module, *arguments, **options) -> Process:
    """Starts ``python -m MODULE``."""
    arguments = [module, *map(str, arguments)]
    code = f"import runpy, sys; sys.argv = {arguments!r}\nrunpy.run_module({module!r}, run_name='__main__')"
    return start(code, **options)


def start_two(*arguments, **options) -> list[Process]:
    """Starts the command line as two processes that train together, as a launcher would.

    It avoids `accelerate launch --cpu`, which without MPI silently starts a single process.
    """
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    shared = {"ACCELERATE_USE_CPU": "true", "WORLD_SIZE": "2", **address}
    return [
        start_cdconv(*arguments, env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}, **options)
        for rank in ("0", "1")
    ]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(condition, *running: Process, seconds=300) -> bool:
    """Waits until a condition holds, or a path exists, or a process ends, and returns whether it holds.

    It waits long, because the machine may be busy.
    """
    holds = condition.exists if isinstance(condition, Path) else condition
    until = time.monotonic() + seconds
    while not (held := holds()) and all(process.poll() is None for process in running) and time.monotonic() < until:
        time.sleep(0.002)
    return bool(held or holds())


def is_answered(url) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def read_at_import(env) -> frozenset:
    """The variables that the libraries of Hugging Face read when they are imported. They read the token later."""
    return frozenset((name, value) for name, value in env.items() if name.startswith("HF_") and name != "HF_TOKEN")


HUB = read_at_import(os.environ)  # of the tests
SHARED = {HUB: dict(os.environ)}  # what libraries that are imported beforehand have read, and the whole environment


def share_imports(env):
    """Processes with the same variables of the Hub are forked from one that has imported the libraries with them.

    A relative path in a variable, such as `HF_HOME`, is a path in the folder in which such a process runs.
    """
    SHARED.setdefault(read_at_import(env), dict(env))


@cache
def connection(imports=HUB):
    """What a process is started through, and its replacement, which forks it from a server with imported libraries.

    Args:
        imports: a key of `SHARED`, or None if the process itself imports `contradiction` and the libraries of Hugging
            Face.
    """
    server = ForkServer()
    server.set_forkserver_preload([*LIBRARIES, *(COMMANDS if imports else ())])
    with patch.dict(os.environ, SHARED.get(imports, os.environ), clear=True):
        server.ensure_running()
    return "multiprocessing.forkserver.connect_to_new_process", server.connect_to_new_process


def _execute(code, cwd, env, streams):
    gc.freeze()  # the libraries imported beforehand
    tempfile.tempdir = None  # these may have looked it up
    written = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (stream, flags) in enumerate(zip(streams, (os.O_RDONLY, written, written), strict=True)):
        if isinstance(stream, str):
            stream = Connection(os.open(stream, flags))
        os.dup2(stream.fileno(), number)
        stream.close()
    # As an interpreter opens them. Those of the server know what its own files can do, such as seeking.
    encoding = env.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = open(0, encoding=encoding, closefd=False)
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)
    sys.stderr = open(2, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False)
    os.chdir(cwd)
    sys.path_importer_cache.clear()  # it resolved relative paths in another folder
    os.environ.clear()
    os.environ.update(env)
    try:
        exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        sys.exit(1)
