"""Load on `cdconv serve` or on the page: many clients at a time on loopback, against a server that is started here.

    python bench/serve.py --clients 200 --seconds 60
    python bench/serve.py --page --clients 200 --seconds 60

Prints answers per second, the median and the 95th percentile of the time to answer, statuses, rows in a forward pass,
and the server's memory. First it does so for one client alone, then for all of them, which shows what joining requests
gains. A client waits as long as a busy server asks it to. At the end more clients than there is room for send requests
at once: each must get an answer or a refusal with a reason. The exit code is 1 if anything else came back.
"""

import json
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from contradiction import cli, paths
from contradiction.conversation import alternating
from contradiction.settings import Limits

ROWS = [json.loads(line) for line in paths.SAMPLE.read_text(encoding="utf-8").splitlines()]
POLITE = (503, 504)  # busy, or too late, each with a sentence
ROOM = Limits().requests


def body(generator: random.Random) -> bytes:
    """A chat of two turns with a random number in its first reply, so that it is hardly ever repeated."""
    row = generator.choice(ROWS)
    texts = [row["u1"], f"{row['b1']}，{generator.randrange(10**9)}", row["u2"], row["b2"]]
    return json.dumps({"messages": alternating(texts)}).encode()


def ask(url: str, content: bytes) -> tuple[int, float]:
    """The status of an answer, 0 if there is none, and the seconds that the client should wait."""
    request = urllib.request.Request(f"{url}/v1/judge", content, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
            return int(answer.status), 0.0
    except urllib.error.HTTPError as error:
        with error:
            in_words = bool(json.load(error).get("error")) if error.code in POLITE else True
            return error.code if in_words else 0, float(error.headers.get("retry-after", 0))
    except (OSError, ValueError):
        return 0, 0.0


def memory(pid: int) -> int:
    """The resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmRSS"))


def rows_and_passes(url: str) -> tuple[int, int]:
    """How many rows the server has predicted, and in how many forward passes."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        counts = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return int(counts["cdconv_rows_total"]), int(counts["cdconv_passes_total"])


def load(url: str, clients: int, seconds: float, pid: int) -> Counter[int]:
    """Runs clients that ask again after each answer; prints the figures, and returns the counts of statuses."""
    statuses: Counter[int] = Counter()
    times: list[float] = []
    before, (rows, passes) = memory(pid), rows_and_passes(url)
    started, lock = time.monotonic(), threading.Lock()

    def client(number: int) -> None:
        generator = random.Random(number)
        while True:
            sent = time.monotonic()
            status, wait = ask(url, body(generator))
            with lock:
                statuses[status] += 1
                if status == 200:
                    times.append(time.monotonic() - sent)
            if time.monotonic() + wait > started + seconds:
                return
            time.sleep(wait)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - started
    more = rows_and_passes(url)
    shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    p50, p95 = (statistics.median(times), statistics.quantiles(times, n=20)[-1]) if len(times) > 1 else (0.0, 0.0)
    print(
        f"{clients} clients: {len(times) / taken:.1f} answers per second, median {p50:.2f} s, 95 % within {p95:.2f} s; "
        f"statuses {shown}; {(more[0] - rows) / max(1, more[1] - passes):.1f} rows per pass; "
        f"memory {before} -> {memory(pid)} MB",
        flush=True,
    )
    return statuses


def main(
    model: Annotated[str, typer.Option(help="A model folder or Hub id.")] = str(paths.SHIPPED),
    clients: Annotated[int, typer.Option(help="The number of clients at a time.")] = 200,
    seconds: Annotated[float, typer.Option(help="How long the clients send requests.")] = 60,
    port: Annotated[int, typer.Option(help="The port of the server.")] = 8765,
    page: Annotated[bool, typer.Option("--page", help="Put load on the page instead of `cdconv serve`.")] = False,
) -> None:
    """Starts the service, puts load on it, prints the figures, and ends it."""
    command = [sys.executable, "-m", "contradiction", "space" if page else "serve"]
    started = time.monotonic()
    server = subprocess.Popen([*command, "--model", model, "--port", str(port)])
    url = f"http://127.0.0.1:{port}"
    try:
        while not _answers(url):
            if server.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.2)
        ask(url, body(random.Random(0)))
        print(f"first answer {time.monotonic() - started:.1f} s after the start", flush=True)
        seen: Counter[int] = Counter()
        for number in dict.fromkeys((1, clients)):
            seen += load(url, number, seconds, server.pid)
        seen += load(url, ROOM + clients, 0.1, server.pid)
    finally:
        server.terminate()
        server.wait(timeout=60)
    sys.exit(0 if set(seen) <= {200, *POLITE} else f"there were other answers than 200 and {POLITE}")


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/healthz", timeout=2).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    cli.main(cli.script(main))
