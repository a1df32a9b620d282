"""How often does a detector raise an alarm in chats between people? Judges every second message as if it were a bot's.

    python -m experiments.human_chats kdconv.txt crosswoz.txt --model models/e5-small-long-replies

A file has one utterance a line and an empty line between two chats, in which two speakers take turns. People seldom
contradict themselves in these chats, so nearly all alarms are false. The script prints, in percent, the replies after
an earlier reply that are called contradictions. The first table has them by the number of earlier turns, at the default
threshold. The second table has them by threshold. Beside them it has the contradictions found in *changed answers*: at
the end of a chat a question is asked again, and the numbers of its first answer are replaced by others. The 95 %
bootstrap intervals are over chats.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from contradiction import ContradictionDetector, cli
from contradiction.conversation import ASSISTANT, alternating
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.tables import Table, with_interval
from contradiction.verdict import Verdict

SEED = 0
CHATS = 100  # that are drawn from each file
CHUNK = 20  # chats that are judged together
EARLIER = ((1, 3), (4, 6), (7, None))  # ranges of the number of earlier turns
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)

Chat = list[dict[str, str]]


def read_chats(path: Path) -> list[Chat]:
    """A random sample of the chats of a file; a last message without a reply is dropped."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    order = np.random.default_rng(SEED).permutation(len(blocks))[:CHATS]
    return [alternating(lines[: len(lines) // 2 * 2]) for lines in (blocks[number].splitlines() for number in order)]


def changed_answers(chats: Sequence[Chat]) -> list[Chat]:
    """The chats with a question asked again, and its first answer with other digits; one for each chat that has digits.

    The last two turns are not asked again, so that the first answer is not the nearest one.
    """
    draw = np.random.default_rng(SEED)

    def other(digit: re.Match[str]) -> str:
        return str((int(digit[0]) - 1 + draw.integers(1, 9)) % 9 + 1)  # never the same digit

    changed = []
    for chat in chats:
        places = [place for place in range(1, len(chat) - 4, 2) if re.search(r"\d", chat[place]["content"])]
        if places:
            place = places[draw.integers(len(places))]
            answer = re.sub(r"\d", other, chat[place]["content"])
            changed.append([*chat, chat[place - 1], {"role": ASSISTANT, "content": answer}])
    return changed


def share(of_chats: Sequence[Sequence[bool]]) -> str:
    """The share of true values, in percent, with an interval over chats."""
    parts, wholes = (np.array([measure(values) for values in of_chats]) for measure in (sum, len))
    drawn = np.random.default_rng(SEED).integers(len(parts), size=(RESAMPLES, len(parts)))
    totals = wholes[drawn].sum(axis=1)
    shares = parts[drawn].sum(axis=1)[totals > 0] / totals[totals > 0]
    return with_interval(parts.sum() / wholes.sum(), np.quantile(shares, [0.025, 0.975]).tolist())


def scan(detector: ContradictionDetector, chats: Sequence[Chat], title: str) -> list[list[Verdict]]:
    """The verdicts on the replies after the first one of each chat."""
    chunks = track(range(0, len(chats), CHUNK), title)
    return [replies[1:] for first in chunks for replies in detector.scan_batch(chats[first : first + CHUNK])]


def main(
    files: Annotated[list[Path], typer.Argument(help="Text files of chats.")],
    model: Annotated[str, typer.Option(help="A model folder or Hub id.")] = "models/e5-small-long-replies",
    precision: Annotated[str, typer.Option(help="fp32 is exact.")] = "fp32",
) -> None:
    """Counts the alarms in chats between people, and the contradictions found in changed answers."""
    detector = ContradictionDetector.from_pretrained(model, precision=precision)
    by_length, by_threshold = [], []
    for path in files:
        drawn = read_chats(path)
        replies = scan(detector, drawn, path.stem)
        alarms = [[verdict.contradiction is True for verdict in verdicts] for verdicts in replies]
        parts = [[values[low - 1 : high] for values in alarms] for low, high in EARLIER]
        cells = [share([values for values in part if values]) for part in (alarms, *parts)]
        by_length.append((path.stem, f"{sum(map(len, alarms)):,}", *cells, share([[any(values)] for values in alarms])))
        changed = detector.batch(changed_answers(drawn))
        for threshold in (None, *THRESHOLDS):
            called = share([[_alarm(verdict, threshold) for verdict in verdicts] for verdicts in replies])
            found = share([[_alarm(verdict, threshold)] for verdict in changed])
            by_threshold.append((path.stem, str(threshold or "default"), called, found, str(len(changed))))
    names = [f"{low} to {high}" if high else f"{low} or more" for low, high in EARLIER]
    header = ("chats", "replies", "called contradictions", *names, "chats with an alarm")
    print(Table(f"{model}: by the number of earlier turns", header, by_length).markdown())
    header = ("chats", "threshold", "called contradictions", "changed answers found", "changed answers")
    print(Table(f"{model}: by threshold", header, by_threshold, texts=2).markdown())


def _alarm(verdict: Verdict, threshold: float | None) -> bool:
    if threshold is None:
        return verdict.contradiction is True
    return verdict.probability is not None and verdict.probability >= threshold


if __name__ == "__main__":
    cli.main(cli.script(main))
