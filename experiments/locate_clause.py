"""Does `detector.locate` find the clause that clashes? Measures it on replies whose clauses are known.

    .venv/bin/python experiments/locate_clause.py models/e5-small-long-replies --rows 150

The rows are contradictions of the history in which `b2` contradicts `b1`. Clauses of other conversations with the same
bot are put around them, so that it is known which clauses clash:

- earlier reply: `b1` is among them, and its clause is the right one.
- judged reply: `b2` is among them, and its clause is the right one.
- within a reply: `b1` and, after it, `b2` are among them, as one reply, and the pair is the right one.

The label is given, so the script measures whether the place is found, not whether the contradiction is. It also prints
chance, and how often the clause or pair with the most common characters is right, which shows how far the topic helps.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import cdconv
from contradiction import ContradictionDetector, Verdict
from contradiction.data import build
from contradiction.data.checklists import evidence_of, messages
from contradiction.evaluation.figures import wilson
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import HISTORY, INTRA
from contradiction.spans import Clause, clauses

SEED = 13
SHORTEST = 4  # characters of a clause that can pass for a statement


@dataclass(frozen=True)
class BuiltReply:
    """A reply that is built of parts: start, end and source of each.

    The source is a column, or empty for a distractor.
    """

    text: str
    parts: Sequence[tuple[int, int, str]]

    def source(self, clause: Clause) -> str:
        """The column that a clause comes from; empty for a distractor."""
        return next(source for start, end, source in self.parts if start <= clause[0] < end)


def build_reply(row: dict, columns: Sequence[str], distractors: Sequence[str]) -> BuiltReply:
    """The utterances of ``columns``, in their order, among clauses of other conversations."""
    generator = random.Random(f"{SEED}-{row['id']}-{columns}")
    sequence = [(text, "") for text in distractors]
    places = sorted(generator.randrange(len(sequence) + 1) for _ in columns)
    for place, column in reversed([*zip(places, columns, strict=True)]):
        sequence.insert(place, (row[column].strip("，。！？,.!? "), column))
    text, parts = "", []
    for part, source in sequence:
        start = len(text) + 1 if text else 0
        text = f"{text}，{part}" if text else part
        parts.append((start, len(text), source))
    return BuiltReply(text, parts)


def draw_distractors(row: dict, rows: Sequence[dict], number: int) -> list[str]:
    """First clauses of other first replies by the same bot."""
    generator = random.Random(f"{SEED}-{row['id']}")
    distractors: list[str] = []
    while len(distractors) < number:
        other = generator.choice(rows)
        start, end = clauses(other["b1"])[0]
        if other["bot"] == row["bot"] and other["u1"] != row["u1"] and end - start >= SHORTEST:
            distractors.append(other["b1"][start:end])
    return distractors


def common_characters(first: str, second: str) -> int:
    """How many distinct characters two texts share."""
    return len(set(first) & set(second))


# For a row: the share of right clauses, whether the one with the most common characters is right, and the located one.
Measured = tuple[float, bool, bool]


def one_reply(column: str) -> Callable[[ContradictionDetector, dict, Sequence[str]], Measured]:
    """Measures the clause of the earlier reply (b1) or of the judged one (b2)."""

    def measure(detector: ContradictionDetector, row: dict, distractors: Sequence[str]) -> Measured:
        reply = build_reply(row, [column], distractors)
        filled = {**row, column: reply.text}
        chat = messages((filled["u1"], filled["b1"]), (filled["u2"], filled["b2"]))
        clash = detector.locate(chat, Verdict(HISTORY, 1.0, {}, evidence=(1,), reply=(3,)))
        assert clash is not None
        span = clash.earlier if column == "b1" else clash.later
        counterpart = row["b2" if column == "b1" else "b1"]
        options = clauses(reply.text)
        guess = max(options, key=lambda clause: common_characters(reply.text[slice(*clause)], counterpart))
        right = [reply.source(clause) == column for clause in options]
        return fmean(right), reply.source(guess) == column, reply.source((span.start, span.end)) == column

    return measure


def within_reply(detector: ContradictionDetector, row: dict, distractors: Sequence[str]) -> Measured:
    """Measures the pair of clauses of one reply."""
    reply = build_reply(row, ["b1", "b2"], distractors)
    clash = detector.locate(messages((row["u2"], reply.text)), Verdict(INTRA, 1.0, {}, reply=(1,)))
    assert clash is not None
    pairs = list(combinations(clauses(reply.text), 2))
    guess = max(pairs, key=lambda pair: common_characters(*(reply.text[slice(*clause)] for clause in pair)))

    def right(pair: Sequence[Clause]) -> bool:
        return [reply.source(clause) for clause in pair] == ["b1", "b2"]

    located = [(span.start, span.end) for span in (clash.earlier, clash.later)]
    return fmean(map(right, pairs)), right(guess), right(located)


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
    rows = cdconv.official_split(cdconv.read_rows(build.find(options.source).path))[options.split]
    chosen = [row for row in rows if evidence_of(row) == [1]]
    random.Random(SEED).shuffle(chosen)
    chosen = chosen[: options.rows]
    measures = {"earlier reply": one_reply("b1"), "judged reply": one_reply("b2"), "within a reply": within_reply}
    body = []
    for name, measure in measures.items():
        measured = [measure(detector, row, draw_distractors(row, rows, options.distractors)) for row in chosen]
        by_chance, guessed, located = (percent(fmean(values)) for values in zip(*measured, strict=True))
        bounds = wilson(sum(right for *_, right in measured), len(measured))
        body.append((name, str(len(measured)), by_chance, guessed, located, interval(bounds)))
    header = ("clause of", "n", "chance", "most common characters", "located", "95 % interval")
    print(f"{options.model}, {options.split} split, {options.distractors} distractors")
    print(Table("", header, body).markdown())


if __name__ == "__main__":
    main()
