"""Claims in chats: verifiable or not, their evidence, and whether it supports them. DialFact (Gupta et al., 2022)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.data.corpora.corpus import Row
from contradiction.data.corpora.dialfact import NAMES
from contradiction.evaluation.corpora import artefacts
from contradiction.evaluation.corpora.pair_scorers import pair_row
from contradiction.evaluation.corpora.report import Report, Request
from contradiction.io.tables import Table, interval, percent
from contradiction.rates import wilson

if TYPE_CHECKING:
    from contradiction.methods.base import Classifier

SUPPORTS, REFUTES, UNKNOWN = NAMES.values()
# What an NLI model says of a passage and a claim, in the words of DialFact.
NLI_LABELS = {"entailment": SUPPORTS, "contradiction": REFUTES, "neutral": UNKNOWN}
DEPTHS = (1, 5, 10)
FOLDS = 5


def evaluate(request: Request) -> Report:
    """Verifiable claims, retrieval of evidence, and verification, each by baselines and verification also by a model.

    What is fitted is fitted to the other folds of the same split; the claims of a chat lie in one fold.
    """
    report, tests = Report(), request.test_rows()
    verifiable, retrieved, verified = [], [], []
    for split, rows in tests.items():
        passages = collect_passages(rows)
        for name, found in verifiable_claims(rows, passages).items():
            verifiable.append((name, split, found))
            report.figures[f"verifiable, {name}/{split}"] = found
        rankings = {
            "claim": retrieve(passages, [row.reply for row in rows]),
            "last message and claim": retrieve(passages, [f"{_last(row)} {row.reply}" for row in rows]),
        }
        for name, order in rankings.items():
            found = recall(rows, passages, order)
            retrieved.append((name, split, found))
            report.figures[f"retrieval, {name}/{split}"] = found
        first = [passages[order[0]] for order in rankings["claim"]]
        for name, labels in _verifiers(request, rows, first).items():
            found = figures(rows, labels)
            verified.append((name, split, found))
            report.figures[f"verification, {name}/{split}"] = found
        given = artefacts.associations([row.reply for row in rows], [str(row.label) for row in rows], fewest=5)
        report.tables.append(artefacts.table(f"What claims give away, {split}", given, measure="lmi"))
    report.tables = [
        _labels_table("Is the claim verifiable? %", verifiable), _retrieval_table(retrieved),
        _labels_table("Is the claim supported or refuted? %", verified), *report.tables,
    ]  # fmt: skip
    return report


def _last(row: Row) -> str:
    return row.messages[-1]["content"] if row.messages else ""


def collect_passages(rows: Sequence[Row]) -> list[str]:
    """The different passages of all claims."""
    return list(dict.fromkeys(passage for row in rows for passage in row.extra["passages"]))


def retrieve(passages: Sequence[str], queries: Sequence[str]) -> list[list[int]]:
    """For each query the indices of all passages, the nearest first; see :func:`similarities`."""
    return [np.argsort(-row, kind="stable").tolist() for row in similarities(passages, queries)]


def similarities(passages: Sequence[str], queries: Sequence[str]) -> np.ndarray:
    """The cosine of TF-IDF vectors of words, shape (queries, passages)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", stop_words="english")
    documents = vectorizer.fit_transform(passages)
    return (vectorizer.transform(queries) @ documents.T).toarray()


def recall(rows: Sequence[Row], passages: Sequence[str], order: Sequence[Sequence[int]]) -> dict[str, Any]:
    """How often one of a claim's passages is among the first k, over claims that are supported or refuted.

    Returns:
        ``n`` claims, ``passages`` to choose from, and ``recall@k`` for each of ``DEPTHS``.
    """
    places = []
    for row, ranking in zip(rows, order, strict=True):
        if row.label != UNKNOWN and row.extra["passages"]:
            wanted = set(row.extra["passages"])
            places.append(next(place for place, index in enumerate(ranking) if passages[index] in wanted))
    reached = {f"recall@{depth}": float(np.mean([place < depth for place in places])) for depth in DEPTHS}
    return {"n": len(places), "passages": len(passages), **reached}


def verifiable_claims(rows: Sequence[Row], passages: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Accuracy and macro-F1 of telling verifiable claims from others.

    The baselines: the most frequent answer, the overlap of the claim with the nearest passage, n-grams of the claim.
    """
    truth = [bool(row.extra["verifiable"]) for row in rows]
    claims = [row.reply for row in rows]
    found = {"the most frequent": [sum(truth) * 2 >= len(truth)] * len(truth)}
    if 0 < sum(truth) < len(truth):
        overlap = similarities(passages, claims).max(axis=1, keepdims=True)
        found["overlap with the nearest passage"] = _cross_predict(_linear(), overlap, truth, rows)
        found["n-grams of the claim"] = _cross_predict(_words(), claims, truth, rows)
    return {name: _scored(truth, labels) for name, labels in found.items()}


def _verifiers(request: Request, rows: Sequence[Row], first: Sequence[str]) -> dict[str, Sequence[str]]:
    """Name -> the label of each claim; ``first`` holds the nearest passage of each."""
    truth = [str(row.label) for row in rows]
    most = max(sorted(set(truth)), key=truth.count)
    found: dict[str, Sequence[str]] = {"the most frequent": [most] * len(rows)}
    if request.baselines:
        found |= {
            "n-grams of the claim alone": _cross_predict(_words(), [row.reply for row in rows], truth, rows),
            "n-grams of claim and marked evidence": _cross_predict(
                _words(), [f"{row.reply} {' '.join(row.extra['passages'])}" for row in rows], truth, rows
            ),
        }
    if request.classifier:
        name = Path(request.classifier.name).name
        marked = [" ".join(row.extra["passages"]) for row in rows]
        found[f"{name}, marked evidence"] = _judged(request.classifier, request, marked, rows)
        found[f"{name}, retrieved evidence"] = _judged(request.classifier, request, first, rows)
    return found


def _judged(classifier: "Classifier", request: Request, evidence: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """What an NLI model says of evidence and claim; without evidence there is not enough information."""
    pairs = [pair_row(text, row.reply) for text, row in zip(evidence, rows, strict=True)]
    said = classifier.classify(pairs, on_batch=request.on_batch)
    return [
        NLI_LABELS.get(each.label_without_rule, each.label_without_rule) if text else UNKNOWN
        for text, each in zip(evidence, said, strict=True)
    ]


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight="balanced", max_iter=300)


def _words() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    return make_pipeline(words, _linear())


def _cross_predict(model: Any, inputs: Any, labels: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    """The label of each input by a model that is fitted to the chats of the other folds."""
    from sklearn.model_selection import GroupKFold, cross_val_predict

    chats = [str(row.source) for row in rows]
    folds = GroupKFold(min(FOLDS, len(set(chats))))
    return list(cross_val_predict(model, inputs, labels, groups=chats, cv=folds))


def figures(rows: Sequence[Row], labels: Sequence[str]) -> dict[str, Any]:
    """``n``, ``accuracy`` with its 95 % Wilson ``interval``, and ``macro_f1`` of the three labels."""
    return _scored([str(row.label) for row in rows], labels)


def _scored(truth: Sequence[Any], labels: Sequence[Any]) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    right = sum(a == b for a, b in zip(truth, labels, strict=True))
    macro = f1_score(truth, labels, average="macro", labels=sorted(set(truth)), zero_division=0)
    return {
        "n": len(truth), "accuracy": right / len(truth), "interval": list(wilson(right, len(truth))),
        "macro_f1": float(macro),
    }  # fmt: skip


Scored = Sequence[tuple[str, str, Mapping[str, Any]]]


def _labels_table(title: str, found: Scored) -> Table:
    rows = [
        (name, split, f"{each['n']:,}", f"{percent(each['accuracy'])} ({interval(each['interval'])})",
         percent(each["macro_f1"]))
        for name, split, each in found
    ]  # fmt: skip
    return Table(title, ("by", "split", "claims", "accuracy", "macro-F1"), rows, texts=2)


def _retrieval_table(found: Scored) -> Table:
    rows = [
        (
            name,
            split,
            f"{each['n']:,}",
            f"{each['passages']:,}",
            *(percent(each[f"recall@{depth}"]) for depth in DEPTHS),
        )
        for name, split, each in found
    ]
    header = ("query", "split", "claims", "passages", *(f"recall@{depth}" for depth in DEPTHS))
    return Table("Evidence by TF-IDF, %", header, rows, texts=2)
