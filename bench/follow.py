"""What the next reply of a chat costs, by the turns before it: detectors side by side.

    .venv/bin/python bench/follow.py models/e5-small-long-replies runs/kernel-4-class-seed23

Chats are put together from CDConv. Each has been judged up to its last turn, as by a monitor that follows
it; the milliseconds are those of this turn alone. A fine-tuned encoder reads a window for each earlier turn anew; a
frozen one embeds only the new messages. The detectors take turns within each round, so that a machine that slows
down slows all of them. Medians over rounds and chats, and how many times those of the first detector they are.
"""

import argparse
import statistics
import time
from itertools import product

from chats import long_chat
from measure import ratio

from contradiction import ContradictionDetector

TURNS = (2, 10, 30, 50)


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", help="model folders or Hub ids")
    parser.add_argument("--chats", type=int, default=4, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    detectors = {name: ContradictionDetector.from_pretrained(name, device="cpu") for name in options.models}
    seconds: dict[tuple[int, str], list[float]] = {}
    for round_number, turns, number in product(range(options.rounds + 1), TURNS, range(options.chats)):
        # The mark makes messages of this chat that no detector has seen.
        mark = f"{round_number}{turns}{number}"
        messages = [{**message, "content": f"{message['content']}{mark}"} for message in long_chat(turns, int(mark))]
        for name, detector in detectors.items():
            detector(messages[:-2])
            started = time.perf_counter()
            detector(messages)
            if round_number:  # the first warms up
                seconds.setdefault((turns, name), []).append(time.perf_counter() - started)
    print(f"milliseconds per reply, {options.chats} chats in each of {options.rounds} rounds")
    print(f"{'turns':>6}" + "".join(f"{name.rpartition('/')[2]:>32}" for name in detectors))
    first = next(iter(detectors))
    for turns in TURNS:
        cells = []
        for name in detectors:
            times, reference = seconds[turns, name], seconds[turns, first]
            cells.append(f"{1000 * statistics.median(times):10.1f} ms ({ratio(times, reference):5.2f} x)")
        print(f"{turns:>6}" + "".join(f"{cell:>32}" for cell in cells))


if __name__ == "__main__":
    main()
