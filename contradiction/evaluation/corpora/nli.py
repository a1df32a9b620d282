"""NLI: whether a premise entails a hypothesis, contradicts it, or neither; and what the hypothesis alone gives away."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contradiction.data.corpora.corpus import Row
from contradiction.evaluation.corpora import artefacts
from contradiction.evaluation.corpora.report import Report, Request, Results, label_figures, score_table
from contradiction.evaluation.corpora.structured import PairRow, ngram_pairs, pair_row
from contradiction.io.tables import Table, percent
from contradiction.labels import LABELS, is_contradiction

Labeller = Callable[[Sequence[PairRow]], Iterable[str]]
MOST_VALUES = 40  # the most values of a column for which figures are given
COLUMNS = {"n": "pairs", "accuracy": "accuracy", "macro_f1": "macro-F1", "two_way": "contradiction or not"}


def evaluate(request: Request) -> Report:
    """Scores a model, a constant answer, and n-grams fitted to the training split, where there is a copy of it."""
    report, results = Report(), {}
    train, tests = request.train_rows(), request.test_rows()
    labellers = _labellers(request, train)
    for split, rows in tests.items():
        pairs = [_pair(row) for row in rows]
        labels_by_name = {name: labeller(pairs) for name, labeller in labellers.items()}
        if request.baselines:
            most = str(Counter(row.label for row in train or rows).most_common(1)[0][0])
            labels_by_name = {"the most frequent label": [most] * len(rows), **labels_by_name}
        for name, labels in labels_by_name.items():
            scores = figures(rows, labels, list(request.chosen.extra))
            results[name, split] = report.figures[f"{name}/{split}"] = scores
        if train:
            premises = {row.premise for row in rows}
            seen = len(premises & {row.premise for row in train})
            report.figures[f"premises/{split}"] = {"premises": len(premises), "seen": seen}
            report.notes.append(f"{split}: {seen:,} of {len(premises):,} premises also stand in the training split")
    report.tables = [score_table(f"{request.corpus.title}, %", "scorer", results, COLUMNS), *_tables_by_part(results)]
    if train:
        texts, truth = [row.hypothesis for row in train], [str(row.label) for row in train]
        if associations := artefacts.associations(texts, truth, characters=request.in_characters):
            report.tables.append(artefacts.table("What hypotheses give away, training split", associations))
    elif request.baselines:
        report.notes.append(f"no n-gram baselines and no artefacts: {request.reason_not_fitted}")
    return report


def _labellers(request: Request, train: Sequence[Row]) -> dict[str, Labeller]:
    labellers: dict[str, Labeller] = {}
    if train:
        alone, both = ngram_pairs([_pair(row) for row in train], [row.label for row in train], request.in_characters)
        labellers |= {"n-grams of the hypothesis alone": alone.predict, "n-grams of both": both.predict}
    if classifier := request.classifier:
        classifier.check_contradictions()
        labellers[request.model_name] = lambda pairs: [
            prediction.argmax for prediction in classifier.classify(pairs, on_batch=request.on_batch)
        ]
    return labellers


def _pair(row: Row) -> PairRow:
    return pair_row(row.premise, row.hypothesis)


def figures(rows: Sequence[Row], predicted: Iterable[str], columns: Sequence[str] = ()) -> dict[str, Any]:
    """The figures of one split.

    Args:
        rows: rows with labels of ``nli``, or of ``2-class``.
        predicted: the predicted labels, of either task.
        columns: columns whose values also get an accuracy each, if there are at most ``MOST_VALUES``.

    Returns:
        ``n``; ``accuracy`` with its 95 % Wilson ``interval`` and ``macro_f1`` of the labels that rows have (None where
        not all labels are of ``nli``); ``two_way``, the accuracy of contradiction or not; ``parts``: column -> value ->
        ``n`` and ``accuracy``, of three labels where possible, and of two otherwise.
    """
    truth = [str(row.label) for row in rows]
    predicted = [str(label) for label in predicted]
    scores = label_figures(truth, predicted)
    right = [a == b for a, b in zip(truth, predicted, strict=True)]
    two_way = [is_contradiction(a) == is_contradiction(b) for a, b in zip(truth, predicted, strict=True)]
    if not {*truth, *predicted} <= set(LABELS["nli"]):
        scores |= dict.fromkeys(("accuracy", "interval", "macro_f1"))
        right = two_way
    return {**scores, "two_way": sum(two_way) / len(two_way), "parts": _parts(rows, right, columns)}


def _parts(rows: Sequence[Row], right: Sequence[bool], columns: Sequence[str]) -> dict[str, Any]:
    parts = {}
    for column in columns:
        groups: dict[str, list[bool]] = defaultdict(list)
        for row, is_right in zip(rows, right, strict=True):
            if row.extra.get(column) is not None:
                groups[str(row.extra[column])].append(is_right)
        if 1 < len(groups) <= MOST_VALUES:
            parts[column] = {
                value: {"n": len(group), "accuracy": sum(group) / len(group)} for value, group in sorted(groups.items())
            }
    return parts


def _tables_by_part(results: Results) -> list[Table]:
    """A table for each column of each split: the accuracy by value, a column for each scorer."""
    tables = []
    for split in dict.fromkeys(split for _, split in results):
        named = {name: scores["parts"] for (name, scored_split), scores in results.items() if scored_split == split}
        for column in next(iter(named.values())):
            values = next(iter(named.values()))[column]
            rows = [
                (value, f"{scores['n']:,}", *(percent(parts[column][value]["accuracy"]) for parts in named.values()))
                for value, scores in values.items()
            ]
            tables.append(Table(f"Accuracy by {column}, {split}, %", (column, "pairs", *named), rows))
    return tables
