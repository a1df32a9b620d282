"""Runs the steps of the Dockerfile without Docker, in an empty folder with a separate virtual environment.

    python tests/run_image.py    # or: make image-check

It installs what the image installs, copies what the image copies, starts the command of the image (without root rights
where other users may run this Python), waits for the health check, and requests one verdict. What only Docker gives,
the base image and the isolation, is not checked. The folder is removed at the end.
"""

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from helpers.chats import CHAT

CHECKOUT = Path(__file__).resolve().parents[1]
SECONDS = 120  # the service must be healthy by then


def instructions():
    """The instructions of the Dockerfile with their arguments filled in."""
    text = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    arguments = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        if name == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value.strip('"')
            continue
        for key, value in arguments.items():
            rest = rest.replace(f"${{{key}}}", value)
        yield name, rest.strip()


def main():
    root = Path(tempfile.mkdtemp(prefix="cdconv-image-"))
    root.chmod(0o755)
    python = root / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", root / "venv"], check=True)
    workdir, health, command = root, None, None
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(root), "LANG": "C.UTF-8"}
    try:
        for name, rest in instructions():
            print(name, rest, flush=True)
            if name == "WORKDIR":
                workdir = root / rest.lstrip("/")
                workdir.mkdir(parents=True)
            elif name == "COPY":
                source, target = rest.split()
                source, target = CHECKOUT / source, workdir / target
                if source.is_dir():
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, target)
            elif name == "RUN" and rest.startswith("pip "):
                subprocess.run([python, "-m", *shlex.split(rest)], cwd=workdir, env=os.environ, check=True)
            elif name == "ENV":
                pairs = (pair.partition("=") for pair in shlex.split(rest))
                environment |= {key: value.replace("/srv", str(root / "srv")) for key, _, value in pairs}
            elif name == "HEALTHCHECK":
                health = json.loads(rest.partition("CMD ")[2])
            elif name == "CMD":
                command = json.loads(rest)
        serve(python, command, health, workdir, environment)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def serve(python, command, health, workdir, environment):
    """Starts the service on loopback and requests a verdict."""
    command = ["127.0.0.1" if part == "0.0.0.0" else part for part in command]
    user = {}
    if os.getuid() == 0:
        if all(folder.stat().st_mode & 0o001 for folder in Path(sys.base_prefix).resolve().parents):
            user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
        else:
            print(f"runs as root, because other users may not read {sys.base_prefix}")
    start = time.monotonic()
    with subprocess.Popen([python, *command[1:]], cwd=workdir, env=environment, **user) as service:
        try:
            while subprocess.run([python, *health[1:]], capture_output=True, env=environment).returncode:
                if service.poll() is not None or time.monotonic() > start + SECONDS:
                    raise SystemExit("the service is not healthy")
                time.sleep(0.5)
            print(f"healthy after {time.monotonic() - start:.1f} s")
            url = "http://127.0.0.1:8000/v1/judge"
            verdict = httpx.post(url, json={"messages": CHAT}, timeout=30, trust_env=False).json()
            print(verdict["label"], verdict["evidence"])
            assert verdict["contradiction"] is True and verdict["evidence"] == [1], verdict
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
