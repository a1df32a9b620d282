"""What a reply costs as its chat grows, for the three ways of reading a history and for whole chats.

    .venv/bin/python bench/turns.py models/e5-small-long-replies --rounds 5
    .venv/bin/python bench/turns.py models/e5-small-long-replies models/qwen-1.5b --whole --precision int8

With ``--whole``, models and precisions are compared in turn on one chat of 30 turns: all its replies in one scan, and
its last reply as a monitor adds it.

Chats are put together from CDConv. In each round all ways judge the same replies in turn, so that a machine that slows
down slows all of them. Medians over the rounds are printed. The windowed way costs one window per earlier turn, so its
cost grows linearly. The unstructured way reads one text, which grows with the chat up to the limit of the model.
"""

import statistics
import time
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from measure import long_chat, ratio

from contradiction import ContradictionDetector, cli
from contradiction.errors import InputError
from contradiction.inference.base import AUTO
from contradiction.inputs.views import WINDOWINGS

TURNS = (2, 10, 30)


def main(
    models: Annotated[list[str], typer.Argument(help="Model folders or Hub ids; several only with --whole.")],
    whole: Annotated[bool, typer.Option("--whole", help="Measure scans and monitors.")] = False,
    precision: Annotated[list[str] | None, typer.Option(help="Of --whole; can be repeated. By default auto.")] = None,
    chats: Annotated[int, typer.Option(min=1, help="The number of chats that are judged in one batch.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="The number of rounds.")] = 5,
) -> None:
    """Measures what a reply costs as its chat grows, and prints a table."""
    if whole:
        whole_chats(models, precision or [AUTO], rounds)
        return
    if len(models) > 1 or precision:
        raise InputError("several models, and --precision, are only for --whole")
    [model] = models
    detector = ContradictionDetector.from_pretrained(model, device="cpu")
    ways = {}
    for windowing in WINDOWINGS:
        try:
            ways[windowing] = detector.with_settings(windowing=windowing)
        except InputError as error:
            print(error)
    seconds: dict[tuple[int, str], list[float]] = {}
    for round_number in range(rounds + 1):
        for turns in TURNS:
            # Different chats in every round, because equal windows are read only once.
            batch = [long_chat(turns, 1000 * round_number + number) for number in range(chats)]
            for windowing, way in ways.items():
                started = time.perf_counter()
                way.batch(batch)
                if round_number:  # the first warms up
                    seconds.setdefault((turns, windowing), []).append(time.perf_counter() - started)
    print(f"milliseconds per reply, {chats} chats in a batch, {rounds} rounds, {model}")
    print(f"{'turns':>6}" + "".join(f"{windowing:>24}" for windowing in ways))
    for turns in TURNS:
        cells = []
        for windowing in ways:
            times, reference = seconds[turns, windowing], seconds[TURNS[0], windowing]
            milliseconds = 1000 * statistics.median(times) / chats
            cells.append(f"{milliseconds:10.1f} ms ({ratio(times, reference):5.1f} x)")
        print(f"{turns:>6}" + "".join(f"{cell:>24}" for cell in cells))


def whole_chats(models: list[str], precisions: list[str], rounds: int) -> None:
    """Prints the times of a scan of a long chat and of its last reply in a monitor, by model and precision."""
    turns = TURNS[-1]
    detectors = {}
    for model, precision in product(models, precisions):
        try:
            detector = ContradictionDetector.from_pretrained(model, device="cpu", precision=precision)
        except InputError as error:
            print(error)
        else:
            detectors[f"{Path(model).name}, {precision}"] = detector
    scans: dict[str, list[float]] = {name: [] for name in detectors}
    replies: dict[str, list[float]] = {name: [] for name in detectors}
    for round_number in range(rounds + 1):
        for name, detector in detectors.items():
            started = time.perf_counter()
            detector.scan(long_chat(turns, 2 * round_number))
            scanned = time.perf_counter() - started
            monitor, chat = detector.monitor(), long_chat(turns, 2 * round_number + 1)
            for message in chat[:-1]:
                monitor.add(message)
            started = time.perf_counter()
            monitor.add(chat[-1])
            if round_number:  # the first warms up
                scans[name].append(scanned)
                replies[name].append(time.perf_counter() - started)
    print(f"milliseconds, chats of {turns} turns, {rounds} rounds: median (slowest)")
    print(f"{'model':<32}{'scan of all replies':>24}{'last reply in a monitor':>28}")
    for name in detectors:
        cells = (
            f"{1000 * statistics.median(each):,.0f} ({1000 * max(each):,.0f})" for each in (scans[name], replies[name])
        )
        print(f"{name:<32}{next(cells):>24}{next(cells):>28}")


if __name__ == "__main__":
    cli.main(cli.script(main))
