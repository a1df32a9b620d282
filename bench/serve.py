"""Load on the REST service: many clients at a time on loopback, against a service that is started here.

    python bench/serve.py --clients 200 --seconds 60

Prints answers a second, the median and the 95th percentile of the time to answer, statuses, and the service's memory at
the start and at the end; first for one client alone, then for all of them, which shows what joining requests gains.
"""

import argparse
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

from contradiction import paths

ROWS = [json.loads(line) for line in paths.SAMPLE.read_text(encoding="utf-8").splitlines()]
ROLES = ("user", "assistant") * 2


def body(generator: random.Random) -> bytes:
    """A chat of two turns that was hardly asked before: its first reply has a number in it."""
    row = generator.choice(ROWS)
    texts = [row["u1"], f"{row['b1']}，{generator.randrange(10**9)}", row["u2"], row["b2"]]
    messages = [{"role": role, "content": text} for role, text in zip(ROLES, texts, strict=True)]
    return json.dumps({"messages": messages}).encode()


def ask(url: str, content: bytes) -> int:
    """The status of an answer; 0 where there is none."""
    request = urllib.request.Request(f"{url}/v1/judge", content, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def memory(pid: int) -> int:
    """The resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmRSS"))


def load(url: str, clients: int, seconds: float) -> tuple[Counter[int], list[float]]:
    """The statuses of the answers to clients that ask again as soon as they are answered, and the times of the good."""
    statuses: Counter[int] = Counter()
    times: list[float] = []
    until, lock = time.monotonic() + seconds, threading.Lock()

    def client(number: int) -> None:
        generator = random.Random(number)
        while time.monotonic() < until:
            started = time.monotonic()
            status = ask(url, body(generator))
            with lock:
                statuses[status] += 1
                if status == 200:
                    times.append(time.monotonic() - started)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, times


def main() -> None:
    """Starts the service, loads it, prints what came, and ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(paths.SHIPPED))
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    command = [sys.executable, "-m", "contradiction", "serve", "--model", options.model, "--port", str(options.port)]
    service = subprocess.Popen(command)
    url = f"http://127.0.0.1:{options.port}"
    try:
        while not _answers(url):
            if service.poll() is not None:
                sys.exit("the service did not start")
            time.sleep(0.2)
        ask(url, body(random.Random(0)))
        for clients in dict.fromkeys((1, options.clients)):
            before = memory(service.pid)
            started = time.monotonic()
            statuses, times = load(url, clients, options.seconds)
            taken = time.monotonic() - started
            shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
            p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
            print(
                f"{clients} clients: {len(times) / taken:.1f} answers a second, median {p50:.2f} s, "
                f"95 % within {p95:.2f} s; statuses {shown}; memory {before} -> {memory(service.pid)} MB"
            )
    finally:
        service.terminate()
        service.wait(timeout=30)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/healthz", timeout=2).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
