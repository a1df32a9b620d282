"""Clients of the Hub in ``hub_server``. Each is a separate process with its own caches, in the folder where it runs."""

import json
import os
import subprocess
import sys

from helpers import processes

NEVER = ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_DATASETS_CACHE", "CDCONV_MODEL")
NO_WAITING = "import time; time.sleep = lambda seconds: None\n"  # the library waits between its retries
# What the library read from the environment when it was imported: set here, so that a client needs no new import.
OFFLINE = "from huggingface_hub import constants; constants.HF_HUB_OFFLINE = True\n"
UNREACHABLE = "from huggingface_hub import constants; constants.ENDPOINT = 'http://127.0.0.1:9'\n"


def environment(hub, **variables):
    """The environment variables of a client."""
    kept = {name: value for name, value in os.environ.items() if name not in NEVER and "proxy" not in name.lower()}
    own = {"HF_HOME": ".", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
    client = kept | own | hub.environment | variables
    processes.share_imports(client)
    return client


def run(hub, home, code, **variables):
    """Runs code in a client and returns the completed process."""
    done = processes.run(code, cwd=home, env=environment(hub, **variables))
    assert done.returncode == 0, done.stderr
    return done


def python(hub, home, code, **variables):
    """Runs code in a client and returns the JSON value on its last line of output."""
    return json.loads(run(hub, home, code, **variables).stdout.splitlines()[-1])


def new_python(hub, home, code, *options):
    """Like `python`, in a new interpreter."""
    env = environment(hub, HF_HOME=str(home))
    done = subprocess.run(
        [sys.executable, *options, "-c", code], cwd=home, env=env, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def push(hub, home, kind, *arguments, repo="user/name", before="", **variables):
    """Runs `cdconv push`."""
    env = environment(hub, **variables)
    return processes.cdconv("push", kind, *arguments, "--repo-id", repo, cwd=home, env=env, before=before)
