"""How often `detector.locate` finds the clause that clashes, on replies made so that the answer is known.

    .venv/bin/python bench/locate.py models/e5-small-cdconv-soup --rows 150

The rows are contradictions of the history in which `b2` contradicts `b1`. Clauses of other conversations with the same
bot are put around them, so that it is known which clauses clash:

- earlier reply: `b1` among them; the clause of it is asked for.
- judged reply: `b2` among them; likewise.
- within a reply: `b1` and, after it, `b2` among them, as one reply; the pair is asked for.

The label is given, so that finding the place is measured and not finding the contradiction. Beside it stand chance and
the clause, or pair, with the most characters in common, which is no contradiction but shows how far the topic goes.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from scipy.stats import binomtest

import cdconv
from contradiction import ContradictionDetector, Verdict
from contradiction.commands.terminal import show
from contradiction.data import sources
from contradiction.data.checklists import evidence_of, messages
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import HISTORY, INTRA
from contradiction.spans import Clause, clauses

SEED = 13
SHORTEST = 4  # characters of a clause that can pass for a statement


@dataclass(frozen=True)
class Made:
    """A reply made of parts, each with whether it is one that clashes.

    Attributes:
        text: of the reply.
        parts: start, end and source (a column, or empty) of each part.
    """

    text: str
    parts: Sequence[tuple[int, int, str]]

    def source(self, clause: Clause) -> str:
        """The column that a clause comes from; empty for a distractor."""
        return next(source for start, end, source in self.parts if start <= clause[0] < end)


def make(row: dict, columns: Sequence[str], others: Sequence[str]) -> Made:
    """The utterances of ``columns``, in their order, among clauses of other conversations."""
    chance = random.Random(f"{SEED}-{row['id']}-{columns}")
    among = [(text, "") for text in others]
    places = sorted(chance.randrange(len(among) + 1) for _ in columns)
    for place, column in reversed([*zip(places, columns, strict=True)]):
        among.insert(place, (row[column].strip("，。！？,.!? "), column))
    text, parts = "", []
    for part, source in among:
        start = len(text) + 1 if text else 0
        text = f"{text}，{part}" if text else part
        parts.append((start, len(text), source))
    return Made(text, parts)


def distractors(row: dict, rows: Sequence[dict], number: int) -> list[str]:
    """First clauses of other first replies by the same bot."""
    chance = random.Random(f"{SEED}-{row['id']}")
    found: list[str] = []
    while len(found) < number:
        other = chance.choice(rows)
        start, end = clauses(other["b1"])[0]
        if other["bot"] == row["bot"] and other["u1"] != row["u1"] and end - start >= SHORTEST:
            found.append(other["b1"][start:end])
    return found


def common(one: str, other: str) -> int:
    """Distinct characters that two texts share."""
    return len(set(one) & set(other))


def one_reply(column: str) -> Callable:
    """Measures the clause of the earlier (b1) or of the judged reply (b2)."""

    def measure(detector: ContradictionDetector, row: dict, others: Sequence[str]) -> tuple[float, bool, bool]:
        made = make(row, [column], others)
        filled = {**row, column: made.text}
        chat = messages((filled["u1"], filled["b1"]), (filled["u2"], filled["b2"]))
        found = detector.locate(chat, Verdict(HISTORY, 1.0, {}, evidence=(1,), reply=(3,)))
        span = found.earlier if column == "b1" else found.later
        counterpart = row["b2" if column == "b1" else "b1"]
        cut = clauses(made.text)
        guess = max(cut, key=lambda clause: common(made.text[slice(*clause)], counterpart))
        right = [made.source(clause) == column for clause in cut]
        return fmean(right), made.source(guess) == column, made.source((span.start, span.end)) == column

    return measure


def within(detector: ContradictionDetector, row: dict, others: Sequence[str]) -> tuple[float, bool, bool]:
    """Measures the pair of clauses of one reply."""
    made = make(row, ["b1", "b2"], others)
    found = detector.locate(messages((row["u2"], made.text)), Verdict(INTRA, 1.0, {}, reply=(1,)))
    pairs = list(combinations(clauses(made.text), 2))
    guess = max(pairs, key=lambda pair: common(*(made.text[slice(*clause)] for clause in pair)))

    def right(pair: Sequence[Clause]) -> bool:
        return [made.source(clause) for clause in pair] == ["b1", "b2"]

    place = [(each.start, each.end) for each in (found.earlier, found.later)]
    return fmean(map(right, pairs)), right(guess), right(place)


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--source", help="a raw file of CDConv; by default $CDCONV_FILE, else the pinned URL")
    parser.add_argument("--split", default="test")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--distractors", type=int, default=2, help="clauses of other conversations in each reply")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model)
    rows = cdconv.official_split(cdconv.read_rows(sources.find(options.source).path))[options.split]
    chosen = [row for row in rows if evidence_of(row) == [1]]
    random.Random(SEED).shuffle(chosen)
    chosen = chosen[: options.rows]
    ways = {"earlier reply": one_reply("b1"), "judged reply": one_reply("b2"), "within a reply": within}
    body = []
    for name, measure in ways.items():
        each = [measure(detector, row, distractors(row, rows, options.distractors)) for row in chosen]
        by_chance, guessed, located = (fmean(values) for values in zip(*each, strict=True))
        hits = sum(right for *_, right in each)
        bounds = binomtest(hits, len(each)).proportion_ci(method="wilson")
        body.append((name, str(len(each)), percent(by_chance), percent(guessed), percent(located), interval(bounds)))
    show(
        Table(
            f"{options.model}, {options.split}, distractors: {options.distractors}",
            ("clause of", "n", "chance", "in common", "located", "95 %"),
            body,
        )
    )


if __name__ == "__main__":
    main()
