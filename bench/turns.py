"""What a reply costs as its chat grows, for the three ways of reading a history.

    .venv/bin/python bench/turns.py models/e5-small-long-replies --rounds 5

Chats are put together from CDConv. In each round all ways judge the same replies in turn, so that a machine that slows
down slows all of them. Medians over the rounds are printed. The windowed way costs one window per earlier turn, so its
cost grows linearly. The unstructured way reads one text, which grows with the chat up to the limit of the model.
"""

import argparse
import statistics
import time

from measure import long_chat, ratio

from contradiction import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.windows import WINDOWINGS

TURNS = (2, 10, 30)


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--chats", type=int, default=8, help="judged in one batch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model, device="cpu")
    ways = {}
    for windowing in WINDOWINGS:
        try:
            ways[windowing] = detector.with_settings(windowing=windowing)
        except InputError as error:
            print(error)
    seconds: dict[tuple[int, str], list[float]] = {}
    for round_number in range(options.rounds + 1):
        for turns in TURNS:
            # Different chats in every round, because equal windows are read only once.
            chats = [long_chat(turns, 1000 * round_number + number) for number in range(options.chats)]
            for windowing, way in ways.items():
                started = time.perf_counter()
                way.batch(chats)
                if round_number:  # the first warms up
                    seconds.setdefault((turns, windowing), []).append(time.perf_counter() - started)
    print(f"milliseconds per reply, {options.chats} chats in a batch, {options.rounds} rounds, {options.model}")
    print(f"{'turns':>6}" + "".join(f"{windowing:>24}" for windowing in ways))
    for turns in TURNS:
        cells = []
        for windowing in ways:
            times, reference = seconds[turns, windowing], seconds[TURNS[0], windowing]
            milliseconds = 1000 * statistics.median(times) / options.chats
            cells.append(f"{milliseconds:10.1f} ms ({ratio(times, reference):5.1f} x)")
        print(f"{turns:>6}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
