"""The gates of the crossed corpora: one side of a chat, or word overlap, must not reveal the label.

python -m experiments.crossed_gates --source cdconv.txt
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, combinations
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import typer

from contradiction import cdconv, cli
from contradiction.commands.common import show
from contradiction.commands.data import SourceOption, find
from contradiction.conversation import ASSISTANT, USER
from contradiction.data.build import crossed_table
from contradiction.data.corpora import Row
from contradiction.data.corpora.crossed import FOLDERS, PHENOMENA, Item, Pair, Quadruple, read_all
from contradiction.errors import InputError
from contradiction.io.tables import Table, percent
from contradiction.labels import CATEGORIES, HISTORY, NON_CONTRADICTION
from contradiction.methods.ngrams import vectorizer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHANCE, TOLERANCE = 0.50, 0.02
MAX_OVERLAP = 0.65
DUPLICATE = 0.85  # cosine between TF-IDF vectors of two texts, from which they count as near-duplicates
READINGS = "readings.csv"


@dataclass(frozen=True)
class Check:
    """One measurement and its limit, both as text; a figure that is reported only has no limit, and passes."""

    name: str
    value: str
    limit: str = ""
    passed: bool = True


def check(folder: str | Path, cdconv_rows: Sequence[Mapping[str, str]] = ()) -> list[Check]:
    """Runs every check of the corpus; without rows of CDConv, near-duplicates in it are not looked for.

    Raises:
        InputError: a batch or an item is not valid, fewer than two batches hold quadruples, or the second reading is
            not valid.
    """
    splits = read_all(folder)
    items = [item for split in splits.values() for item in split]
    for item in items:
        if problem := _problem(item):
            raise InputError(f"{folder}: item {item.id!r}: {problem}")
    quadruples = [item for item in items if isinstance(item, Quadruple)]
    if len(filled := {quadruple.batch for quadruple in quadruples}) < 2:
        raise InputError(
            f"{folder}: batches with quadruples: {len(filled)}; the checks hold batches out, so they need at least two"
        )
    pairs = [item for item in items if isinstance(item, Pair)]
    rows = _judged(quadruples)
    checks = [
        _crossing(quadruples),
        *(
            _one_sided(f"{side} only, n-grams, AUC over batches held out", rows, text)
            for side, text in (("reply", _reply), ("chat", _chat))
        ),
        *_overlap(quadruples),
        _duplicates_across_splits(splits),
    ]
    if cdconv_rows:
        checks.append(_duplicates_of_cdconv(items, cdconv_rows))
    if len({pair.batch for pair in pairs}) > 1:
        auc = _auc_by_batch(_judged(pairs), _reply)
        checks.append(Check("self-contradictions: reply only, n-grams, AUC over batches held out", percent(auc)))
    if (Path(folder) / READINGS).is_file():
        checks.append(_second_reading(Path(folder) / READINGS, items))
    return checks


def _problem(item: Item) -> str:
    """What is not in the form that :mod:`contradiction.data.corpora.crossed` documents; empty if all is."""
    if item.phenomenon not in PHENOMENA or item.label not in CATEGORIES:
        return f"there is no phenomenon {item.phenomenon!r}, or no label {item.label!r}"
    try:
        for row in item.judged():
            roles = [message["role"] for message in row.messages]
            if roles != [USER, *[ASSISTANT, USER] * (len(roles) // 2)]:
                return "a chat alternates user and assistant, and begins and ends with the user"
            texts = (item.id, item.batch, row.reply, *(message["content"] for message in row.messages))
            if not all(isinstance(text, str) and text.strip() for text in texts):
                return "each reply and message must be a text, and not empty"
        if isinstance(item, Pair):
            fits = all(clause in item.bad for clause in item.clauses) and len(item.clauses) == 2
            return "" if fits else "clauses must be two parts of 'bad'"
        if len(item.a) != len(item.b) or item.a[item.evidence] == item.b[item.evidence] or item.evidence < 0:
            return "the chats must be equally long, and differ in the message of evidence"
        if item.label == HISTORY and item.a[item.evidence]["role"] != ASSISTANT:
            return "the evidence of a contradiction of the history is a message of the assistant"
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"not of the documented form ({error})"
    return ""


def check_table(checks: Iterable[Check], name: str) -> Table:
    """A table with a row for each check."""
    rows = [(check.name, check.value, check.limit, "yes" if check.passed else "NO") for check in checks]
    return Table(f"Checks of the corpus {name}", ("check", "value", "limit", "passed"), rows, texts=4)


def _crossing(quadruples: Sequence[Quadruple]) -> Check:
    """Every chat and every reply of a quadruple must occur once with each label."""
    broken = 0
    for quadruple in quadruples:
        judged = list(quadruple.judged())
        for part in (_reply, _chat):
            labels: dict[str, list[bool]] = {}
            for row in judged:
                labels.setdefault(part(row), []).append(row.label != NON_CONTRADICTION)
            broken += any(sorted(labels_of_part) != [False, True] for labels_of_part in labels.values())
    return Check("quadruples that are not crossed", str(broken), "0", not broken)


def _judged(items: Iterable[Item]) -> list[Row]:
    return [row for item in items for row in item.judged()]


def _one_sided(name: str, rows: Sequence[Row], text: Callable[[Row], str]) -> Check:
    auc = _auc_by_batch(rows, text)
    return Check(name, percent(auc), f"{percent(CHANCE, 0)} ± {percent(TOLERANCE, 0)}", abs(auc - CHANCE) <= TOLERANCE)


def _auc_by_batch(rows: Sequence[Row], text: Callable[[Row], str]) -> float:
    return ngram_auc(
        [text(row) for row in rows],
        [row.label != NON_CONTRADICTION for row in rows],
        [row.extra["batch"] for row in rows],
    )


def ngram_auc(
    texts: Sequence[str], contradicts: Sequence[bool], groups: Sequence[str], seed: int | None = None
) -> float:
    """Area under the ROC curve of a linear model of character n-grams, fitted to the other groups; 0.5 is chance.

    The n-grams are counted once over all different texts, without their labels.

    Args:
        texts: what the model reads of each row.
        contradicts: whether the row is a contradiction.
        groups: rows of one group are never on both sides of a fold.
        seed: shuffles the groups before they are divided into folds; by default they are not shuffled.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict

    balance: Counter[tuple[str, str]] = Counter()
    for text, label, group in zip(texts, contradicts, groups, strict=True):
        balance[text, group] += 1 if label else -1
    if not any(balance.values()):  # both labels have the same scores, whatever the model
        return CHANCE
    different = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors = vectorizer(sublinear_tf=True).fit_transform(different)[[different[text] for text in texts]]
    folds = GroupKFold(n_splits=min(5, len(set(groups))), shuffle=seed is not None, random_state=seed)
    scores = cross_val_predict(
        LogisticRegression(C=3), vectors, contradicts, groups=groups, cv=folds, method="decision_function"
    )
    return float(roc_auc_score(contradicts, scores))


def _overlap(quadruples: Sequence[Quadruple]) -> Iterator[Check]:
    """How often a reply shares more of its bigrams with its own chat than with the other; 50 is chance.

    A high figure lets a detector score by counting shared words. One batch can have a high figure where the mean has
    none, so the highest one has a limit as well.
    """
    wins: dict[str, list[float]] = {}
    for quadruple in quadruples:
        a, b = (_bigrams(" ".join(message["content"] for message in chat)) for chat in (quadruple.a, quadruple.b))
        for own, other, reply in ((a, b, quadruple.reply_a), (b, a, quadruple.reply_b)):
            words = _bigrams(reply)
            shared = [len(words & chat) for chat in (own, other)]
            win = (shared[0] > shared[1]) + 0.5 * (shared[0] == shared[1])
            wins.setdefault(quadruple.batch, []).append(win)
    name, limit = "replies that share more words with their own chat, AUC", f"<= {percent(MAX_OVERLAP, 0)}"
    auc = mean(chain.from_iterable(wins.values()))
    yield Check(name, percent(auc), limit, auc <= MAX_OVERLAP)
    worst = max(wins, key=lambda batch: mean(wins[batch]))
    auc = mean(wins[worst])
    yield Check("the same, the batch with the highest", f"{percent(auc)} ({worst})", limit, auc <= MAX_OVERLAP)


def _duplicates_across_splits(splits: Mapping[str, Sequence[Item]]) -> Check:
    texts = [[_evidence_and_replies(item) for item in items] for items in splits.values()]
    close = sum(_close(one, other) for one, other in combinations(_vectors(*texts), 2))
    return Check("near-duplicate items across splits", str(close), "0", not close)


def _duplicates_of_cdconv(items: Sequence[Item], rows: Sequence[Mapping[str, str]]) -> Check:
    replies = [f"{row.messages[-2]['content'] if len(row.messages) > 1 else ''} {row.reply}" for row in _judged(items)]
    close = _close(*_vectors(replies, [f"{row['b1']} {row['b2']}" for row in rows]))
    return Check("near-duplicates of replies in CDConv", str(close), "0", not close)


def _vectors(*groups: Sequence[str]) -> list["csr_matrix"]:
    """The vectors of the texts of each group, by n-grams counted over all groups."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    # Much faster than a vocabulary of a million n-grams.
    counts = HashingVectorizer(analyzer="char", ngram_range=(2, 3), n_features=2**22, norm=None, alternate_sign=False)
    vectors = TfidfTransformer().fit_transform(counts.transform(chain(*groups)))
    ends = list(accumulate(map(len, groups)))
    return [vectors[end - len(group) : end] for group, end in zip(groups, ends, strict=True)]


def _close(some: "csr_matrix", others: "csr_matrix") -> int:
    """How many of some vectors have a near-duplicate among others."""
    if not some.shape[0] or not others.shape[0]:
        return 0
    right = others.T.tocsc()
    return sum(
        int(((some[start : start + 500] @ right).max(axis=1).toarray() >= DUPLICATE).sum())
        for start in range(0, some.shape[0], 500)
    )


def _second_reading(path: Path, items: Sequence[Item]) -> Check:
    """Agreement of a second, blind reader with the labels: ``id,contradiction`` a line, contradiction 0 or 1."""
    from sklearn.metrics import cohen_kappa_score

    labels = {row.id: int(row.label != NON_CONTRADICTION) for row in _judged(items)}
    with path.open(encoding="utf-8", newline="") as stream:
        read = {line["id"]: line["contradiction"] for line in csv.DictReader(stream)}
    if wrong := [name for name, reading in read.items() if name not in labels or reading not in ("0", "1")]:
        raise InputError(f"{path}: {wrong[0]!r} must be the id of a judged reply, and its reading 0 or 1")
    truth, readings = [labels[name] for name in read], list(map(int, read.values()))
    agreed = sum(label == reading for label, reading in zip(truth, readings, strict=True))
    kappa = cohen_kappa_score(truth, readings)
    return Check(
        "second, blind reading",
        f"{agreed} of {len(read)} agree, Cohen's kappa {kappa:.2f}",
        "kappa >= 0.9",
        kappa >= 0.9,
    )


def _reply(row: Row) -> str:
    return row.reply


def _chat(row: Row) -> str:
    return json.dumps([message["content"] for message in row.messages], ensure_ascii=False)


def _bigrams(text: str) -> set[str]:
    return {text[index : index + 2] for index in range(len(text) - 1)}


def _evidence_and_replies(item: Item) -> str:
    if isinstance(item, Quadruple):
        evidence = item.evidence
        return " ".join((item.a[evidence]["content"], item.b[evidence]["content"], item.reply_a, item.reply_b))
    return f"{item.good} {item.bad}"


def main(source: SourceOption = None) -> None:
    """Checks that one side of the crossed corpora does not reveal the label; exits with 1 if a check fails."""
    rows = cdconv.read_rows(find(source).path)
    passed = True
    for name, place in FOLDERS.items():
        checks = check(place, rows)
        show(crossed_table(read_all(place), name), check_table(checks, name))
        passed = passed and all(check.passed for check in checks)
    if not passed:
        raise typer.Exit(1)


if __name__ == "__main__":
    cli.main(cli.script(main))
