"""The metric of CDConv: accuracy, macro-F1 and the figures of every class, with bootstrap intervals and paired tests.

`score` and `compare` are plain functions. `score_replies` adds the figures of probabilities, of replies to one chat and
of evidence, and `score_rows` gives those of the crossed chats and of response selection.
`CDConvMetric` makes them available to `evaluate.load`. The file is a Hub Space of its own: it imports nothing of this
project, and one module per line, which `evaluate` needs.
"""

from collections import Counter
from collections import abc
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import datasets
import evaluate
import numpy as np
from evaluate.utils.file_utils import add_start_docstrings
from scipy.stats import binomtest
from scipy.stats import rankdata

# The labels of each task, in the order of their ids in the data set.
LABELS: dict[str, tuple[str, ...]] = {
    "2-class": ("non-contradiction", "contradiction"),
    "4-class": ("non-contradiction", "intra-sentence", "role-confusion", "history"),
    "persona": ("unrelated", "attributes", "opinions", "experiences"),
    "nli": ("entailment", "neutral", "contradiction"),  # what a backbone is fine-tuned on before CDConv
    "response": ("wrong", "right"),
    "verifiable": ("not verifiable", "verifiable"),
}
# Tasks whose rows are more than a label, see `score_rows`.
CROSSED, SELECTION = "crossed", "selection"
# Each config of the data set has a twin with this ending; the labels are the same.
GROUPED = "-grouped"
# Configs of the data set that are scored as another config.
SCORED_AS = {"4-class-a2t": "4-class", "4-class-rct": "4-class", "crossed-long": CROSSED, "crossed-en": CROSSED}

CONTRADICTIONS = ("contradiction", "intra-sentence", "role-confusion", "history")
# The merge rule of the paper as a matrix, for each task that can be merged to two classes.
MERGE: dict[str, np.ndarray] = {
    task: np.array([[label not in CONTRADICTIONS, label in CONTRADICTIONS] for label in LABELS[task]], int)
    for task in ("4-class", "nli")
}

RESAMPLES = 2000  # the default of a comparison
BINS = 10  # the most bins of the calibration error

_CITATION = """\
@inproceedings{zheng-etal-2022-cdconv,
    title = "{CDC}onv: A Benchmark for Contradiction Detection in {C}hinese Conversations",
    author = "Zheng, Chujie and Zhou, Jinfeng and Zheng, Yinhe and Peng, Libiao and Guo, Zhen and Wu, Wenquan and
      Niu, Zheng-Yu and Wu, Hua and Huang, Minlie",
    booktitle = "Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing",
    year = "2022",
    publisher = "Association for Computational Linguistics",
    pages = "18--29",
}
"""

_DESCRIPTION = """\
Accuracy, macro-F1 and the figures of every class for CDConv, the benchmark of contradictions in Chinese conversations.
Four-class results come with their two-class merge; intervals and paired comparisons come from an exact bootstrap.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: class ids or label names, one for each conversation.
    references: class ids or label names, of the same length. One list may hold ids and the other names.
    baseline_predictions (optional): the predictions of another detector for the same rows, in the same order.
    bootstrap (int): number of resamples for the intervals; 0, the default, for none. A comparison then takes 2,000.
    seed, confidence_level, stratified: how rows are resampled; 0, 0.95 and False by default. See `score`.
    threshold (float): the config "crossed" calls a probability from here on a contradiction; 0.5 by default.

Returns:
    The result of `score`; with baseline_predictions also "comparison", the result of `compare`.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("./evaluate_metric")
    >>> names = ["non-contradiction", "history", "role-confusion", "history"]
    >>> result = metric.compute(predictions=names, references=[0, 3, 3, 3])
    >>> result["accuracy"], result["two_class"]["accuracy"]
    (0.75, 1.0)
    >>> result["per_class"]["history"]
    {'precision': 1.0, 'recall': 0.6666666666666666, 'f1': 0.8, 'support': 3}

    Macro-F1 is the mean over the labels of the references, which are two here:

    >>> result["macro_f1"]  # (1 + 0.8) / 2
    0.9
"""

Labels = abc.Iterable[int | str]
Figure = abc.Callable[[np.ndarray], np.ndarray]
Reader = abc.Callable[[Any, str], Any]  # takes a value and its place, and raises ValueError for one that is not valid
Shares = dict[str, tuple[float, float]]  # the part and the whole of each figure, to be summed over rows


@dataclass(frozen=True)
class Bootstrap:
    """How rows are resampled. The fields are arguments of `score` and `compare`."""

    bootstrap: int = 0
    seed: int = 0
    confidence_level: float = 0.95
    stratified: bool = False

    def __post_init__(self) -> None:
        for name in ("bootstrap", "seed"):
            value = getattr(self, name)
            if not _is_integer(value) or value < 0:
                raise ValueError(f"{name} is {short(value)}; allowed are whole numbers from 0")
        level = self.confidence_level
        if not isinstance(level, float | np.floating) or not 0 < level < 1:  # NaN is not between either
            raise ValueError(f"confidence_level is {short(level)}; allowed are fractions above 0 and below 1, as 0.95")
        if not isinstance(self.stratified, bool | np.bool_):
            raise ValueError(f"stratified is {short(self.stratified)}; allowed are True and False")

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Counts of resampled rows, shape (resamples, *counts.shape); axis 0 of `counts` is the reference.

        Rows in the same cell are interchangeable. So drawing n rows with replacement and counting them is a multinomial
        draw over the cells: the same distribution, without a loop over rows.
        """
        rng = np.random.default_rng(self.seed)
        groups = counts.reshape(len(counts) if self.stratified else 1, -1)
        draws = np.zeros((int(self.bootstrap), *groups.shape), dtype=np.int64)
        for index, group in enumerate(groups):
            cells = np.flatnonzero(group)  # without empty cells: rounding would give the last cell rows
            if cells.size:
                rows = group.sum()
                draws[:, index, cells] = rng.multinomial(rows, group[cells] / rows, size=len(draws))
        return draws.reshape(-1, *counts.shape)

    def draw_clusters(self, counts: np.ndarray) -> np.ndarray:
        """Sums of resampled clusters, shape (resamples, columns), of their counts, shape (clusters, columns)."""
        # Clusters with equal counts are interchangeable, so it is enough to draw how many of each kind there are.
        kinds, sizes = np.unique(counts, axis=0, return_counts=True)
        rng = np.random.default_rng(int(self.seed))
        return rng.multinomial(len(counts), sizes / len(counts), size=int(self.bootstrap)) @ kinds

    def interval(self, figures: dict[str, np.ndarray]) -> dict[str, Any]:
        """The percentile interval of each figure over its resamples, and how they were drawn."""
        tail = (1 - float(self.confidence_level)) / 2
        return {
            # Without the resamples in which a figure is 0 / 0.
            **{name: np.nanquantile(values, [tail, 1 - tail]).tolist() for name, values in figures.items()},
            "confidence_level": float(self.confidence_level),
            "resamples": int(self.bootstrap),
            "seed": int(self.seed),
            "stratified": bool(self.stratified),
        }


def score(
    references: Labels,
    predictions: Labels,
    task: str = "4-class",
    *,
    bootstrap: int = 0,
    seed: int = 0,
    confidence_level: float = 0.95,
    stratified: bool = False,
) -> dict[str, Any]:
    """Scores predictions against references.

    The macro mean is over the labels that occur in the references, and 0 / 0 is 0, as in scikit-learn with `labels=`
    these labels and `zero_division=0`. The interval is the percentile interval over resampled rows. By default all rows
    are drawn together, so class sizes vary as in another test set. `stratified` draws within each reference class, for
    class sizes that were fixed by design; its intervals are somewhat narrower.

    Args:
        references: class ids or label names, one for each conversation.
        predictions: class ids or label names, of the same length.
        task: "2-class", "4-class", "persona", "nli", "response" or "verifiable", also with "-grouped" at its end.
        bootstrap: number of resamples for "interval"; 0 for none.
        seed: seed of the resamples, 0 or more.
        confidence_level: level of the interval, above 0 and below 1.
        stratified: whether resamples keep the size of each reference class.

    Returns:
        The figures of `FIGURES` ("accuracy" and "macro_f1", as fractions), "per_class" (label: precision, recall, f1,
        support), "confusion_matrix" (rows: references, columns: predictions), "labels" (their order), "n" (rows). With
        bootstrap also "interval" (each figure as [low, high], "confidence_level", "resamples", "seed", "stratified").
        For 4-class and nli also "two_class": the same from the same resamples, merged to contradiction or not.

    Raises:
        ValueError: an argument is not valid; the message names it, its value and what is allowed.

    Examples:
        >>> score([0, 1, 1], ["contradiction"] * 3, task="2-class")["confusion_matrix"]
        [[0, 1], [0, 2]]
        >>> score([1, 1, 0], [0, 1, 2], task="2-class")
        Traceback (most recent call last):
        ValueError: predictions[2] is 2; allowed for 2-class are 0-1 or 'non-contradiction', 'contradiction'
    """
    task = _task(task)
    resampling = Bootstrap(bootstrap, seed, confidence_level, stratified)
    counts = _count(task, references=references, predictions=predictions)
    return _reports(counts, resampling.draw(counts) if bootstrap else None, task, resampling)


def score_replies(
    references: Labels,
    predictions: Labels,
    task: str = "4-class",
    *,
    probabilities: abc.Sequence[float] | np.ndarray | None = None,
    contexts: abc.Sequence[abc.Hashable] | None = None,
    items: abc.Sequence[abc.Hashable] | None = None,
    evidence: abc.Sequence[abc.Collection[int] | None] | None = None,
    named_evidence: abc.Sequence[abc.Collection[int]] | None = None,
    bootstrap: int = 0,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> dict[str, Any]:
    """Scores the labels of replies to chats, and their probabilities and evidence where these are given.

    Args:
        references: as in `score`, like `predictions` and `task`. The next arguments hold a value for each reply.
        predictions: the predicted labels.
        task: the task of both.
        probabilities: the probability of a contradiction of any kind.
        contexts: what the reply is an answer to. A contradicting and a consistent reply in one context are a pair.
        items: what the row was made from. Rows of one item are resampled together, those of a context too.
        evidence: the indices of what the reply contradicts; None where nobody marked it.
        named_evidence: the predicted indices.
        bootstrap: as in `score`, like `seed` and `confidence_level`.
        seed: seed of the resamples.
        confidence_level: level of the intervals.

    Returns:
        The result of `score`, and with their intervals where there is anything to count, as fractions
        "auc", the area under the ROC curve, and "calibration_error" (no intervals), see `calibration_error`;
        "pairs", their number;
        "in_order", the pairs whose contradicting reply has the higher probability; a tie counts one half;
        "both_right", the pairs of which only the contradicting reply is called a contradiction;
        "all_right", the items with replies of both kinds of which the same holds for all replies;
        "evidence_precision", "evidence_recall" and "evidence_f1" over the contradictions with marked evidence;
        "strict_accuracy", label and evidence both exactly right, over the replies whose evidence is known.

    Raises:
        ValueError: a label or a probability is not valid, the lengths differ, or named_evidence is missing.

    Examples:
        >>> figures = score_replies([0, 3], [0, 0], probabilities=[0.2, 0.4], contexts=["a", "a"])
        >>> figures["in_order"], figures["both_right"], figures["auc"]
        (1.0, 0.0, 1.0)
    """
    task = _task(task)
    resampling = Bootstrap(bootstrap, seed, confidence_level)
    columns = _columns(task, references=references, predictions=predictions)
    given = {"probabilities": probabilities, "contexts": contexts, "items": items, "evidence": evidence,
             "named_evidence": named_evidence}  # fmt: skip
    more = {name: list(_plain(values)) for name, values in given.items() if values is not None}
    _check_lengths({**columns, **more})
    if "evidence" in more and "named_evidence" not in more:
        raise ValueError("named_evidence is None; evidence is compared with it")
    chances = None if probabilities is None else np.array(_rows(more["probabilities"], "probabilities", CROSSED))
    truth, called = (np.array([LABELS[task][label] in CONTRADICTIONS for label in columns[name]]) for name in columns)
    right = np.equal(columns["references"], columns["predictions"])
    clusters = _numbers(more.get("items", more.get("contexts", range(len(truth)))))
    counts = _count(task, **columns)
    draws = None
    if bootstrap and items is None:
        draws = resampling.draw(counts)
    elif bootstrap:
        cells = np.zeros((clusters.max() + 1, counts.size), int)
        np.add.at(cells, (clusters, np.ravel_multi_index(tuple(columns.values()), counts.shape)), 1)
        draws = resampling.draw_clusters(cells).reshape(-1, *counts.shape)
    result = _reports(counts, draws, task, resampling)
    if chances is not None and truth.any() and not truth.all():
        result["auc"] = _pairs_in_order(truth, chances) / (int(truth.sum()) * int((~truth).sum()))
        result["calibration_error"] = calibration_error(truth, chances)
    shares = _compared(truth, called, chances, clusters, more.get("contexts"), in_items=items is not None)
    if "evidence" in more:
        for row, (gold, named) in enumerate(zip(more["evidence"], more["named_evidence"], strict=True)):
            _add(shares[clusters[row]], _evidence_shares(bool(truth[row]), bool(right[row]), gold, named))
    ratios = _ratios(shares, resampling)
    if pairs := sum(entry["both_right"][1] for entry in shares if "both_right" in entry):
        result["pairs"] = int(pairs)
    if bootstrap:
        result["interval"] |= ratios.pop("interval", {})
    return {**result, **{name: value for name, value in ratios.items() if value is not None}}


def calibration_bins(truth: np.ndarray, probabilities: np.ndarray) -> list[tuple[int, float, float]]:
    """The bins of a reliability diagram, the lowest first: rows, mean probability, and the fraction that is true.

    The bins have equal mass, between quantiles of the probabilities. Equal probabilities share a bin, so there may be
    fewer bins.
    """
    edges = np.percentile(probabilities, np.linspace(0, 100, BINS + 1))[1:-1]
    _, numbers = np.unique(np.searchsorted(edges, probabilities), return_inverse=True)
    return [(len(part), float(probabilities[part].mean()), float(truth[part].mean())) for part in _members(numbers)]


def calibration_error(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """The expected calibration error: the mean gap between probability and fraction, weighted by the rows of a bin."""
    parts = calibration_bins(truth, probabilities)
    return sum(rows * abs(mean - fraction) for rows, mean, fraction in parts) / len(truth)


def _pairs_in_order(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """How many pairs of a contradiction and another row have the contradiction first; a tie counts one half."""
    positives = int(truth.sum())
    return float(rankdata(probabilities)[truth].sum()) - positives * (positives + 1) / 2


def _numbers(values: abc.Iterable[abc.Hashable]) -> np.ndarray:
    """The number of each value, counted from 0 in the order of their first occurrence."""
    numbers: dict[abc.Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values])


def _members(numbers: np.ndarray) -> list[np.ndarray]:
    """The rows with each number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.cumsum(np.bincount(numbers))[:-1])


def _add(total: Shares, shares: Shares) -> None:
    for name, (part, whole) in shares.items():
        before = total.get(name, (0, 0))
        total[name] = (before[0] + part, before[1] + whole)


def compare(
    references: Labels,
    predictions: Labels,
    baseline_predictions: Labels,
    task: str = "4-class",
    *,
    bootstrap: int = RESAMPLES,
    seed: int = 0,
    confidence_level: float = 0.95,
    stratified: bool = False,
) -> dict[str, Any]:
    """Compares two detectors on the same rows: how much better is the first, and could that be chance?

    The arguments are those of `score`, and `baseline_predictions` of the other detector. `bootstrap` is at least 1.
    Each resample draws rows with both predictions. This is far more sensitive than to check whether two intervals
    overlap. "p_value" is that of the two-sided paired bootstrap for macro-F1: of B resampled differences, a are at or
    above 0 and b at or below 0; p = min(1, 2 (min(a, b) + 1) / (B + 1)). McNemar's test is about accuracy: the exact
    two-sided binomial test of whether each detector wins half of the rows that only one of them gets right.

    Returns:
        "NAME_difference" for each figure of `FIGURES` (predictions minus baseline, -1 to 1), "interval" (each as [low,
        high], and how rows were resampled), "p_value", "mcnemar" ("only_predictions_right" and "only_baseline_right" in
        rows, "p_value"). For 4-class and nli also "two_class": the same, merged to contradiction or not.

    Raises:
        ValueError: an argument is not valid; the message names it, its value and what is allowed.
    """
    task = _task(task)
    resampling = Bootstrap(bootstrap, seed, confidence_level, stratified)
    if not bootstrap:
        raise ValueError("bootstrap is 0; a comparison needs at least 1 resample, better 2,000")
    counts = _count(task, references=references, predictions=predictions, baseline_predictions=baseline_predictions)
    draws = resampling.draw(counts)
    result = _contrast(counts, draws, resampling)
    if task in MERGE:
        result["two_class"] = _contrast(_merge(counts, task, 3), _merge(draws, task, 3), resampling)
    return result


def score_rows(
    references: abc.Iterable[Any],
    predictions: abc.Iterable[Any],
    task: str,
    *,
    bootstrap: int = 0,
    seed: int = 0,
    confidence_level: float = 0.95,
    threshold: float = 0.5,
) -> dict[str, Any]:
    """Scores rows that are more than a label.

    "crossed", for the crossed chats of the data set: a prediction is the probability of a contradiction, a reference a
    row with "id", "item" and "label" (an id or name of "4-class"). All rows of an item must be there. Each chat has one
    consistent and one contradicting reply. The figures are "in_order", the chats whose contradicting reply has the
    higher probability (a tie counts one half); "both_right", the chats with one probability on each side of
    `threshold`; and "all_right", the items with all chats right. "n" counts items, and the intervals resample them.

    "selection", as in MuTual (Cui et al., 2020): a prediction is the scores of the replies of an item, a reference the
    index of the right one. The figures are recall at 1 and 2 ("r1", "r2") and the mean reciprocal rank ("mrr"). Among
    equal scores the rank of the right reply is as if they were shuffled.

    Returns:
        "n" (rows, or items of "crossed"), and the figures as fractions; one that is 0 / 0 is None. With bootstrap also
        "interval", as in `score`.

    Raises:
        ValueError: an argument is not valid; the message names it, its value and what is allowed.

    Examples:
        >>> score_rows([2, 0], [[0.1, 0.3, 0.9], [0.2, 0.7, 0.1]], "selection")["mrr"]
        0.75
        >>> pair = [{"id": "t-good", "item": "t", "label": 0}, {"id": "t-bad", "item": "t", "label": "intra-sentence"}]
        >>> score_rows(pair, [0.6, 0.8], "crossed")
        {'n': 1, 'in_order': 1.0, 'both_right': 0.0, 'all_right': 0.0}
    """
    task = _scored_as(task)
    if task not in ROW_TASKS:
        raise ValueError(f"the task is {short(task)}; allowed are {', '.join(map(repr, ROW_TASKS))}")
    resampling = Bootstrap(bootstrap, seed, confidence_level)
    columns = _columns(task, references=references, predictions=predictions)
    rows = list(zip(columns["references"], columns["predictions"], strict=True))
    if task == CROSSED:
        counted = _crossed_shares(rows, _probability(threshold, "threshold"))
    else:
        counted = [_selection_shares(*row) for row in rows]
    return {"n": len(counted), **_ratios(counted, resampling)}


def _ratios(shares: list[Shares], resampling: Bootstrap) -> dict[str, Any]:
    """The sum of the parts by that of the wholes of each figure; None for 0 / 0. Resamples draw the entries."""
    names = list(dict.fromkeys(name for entry in shares for name in entry))
    counts = np.array([[entry.get(name, (0, 0)) for name in names] for entry in shares], float)
    counts = counts.reshape(len(shares), len(names), 2)  # also without figures
    values = _quotients(counts.sum(axis=0), names).tolist()
    result: dict[str, Any] = {
        name: None if np.isnan(value) else value for name, value in zip(names, values, strict=True)
    }
    if resampling.bootstrap and names:
        sums = resampling.draw_clusters(counts.reshape(len(counts), -1)).reshape(-1, *counts.shape[1:])
        drawn = dict(zip(names, _quotients(sums, names).T, strict=True))
        result["interval"] = resampling.interval({name: drawn[name] for name in names if result[name] is not None})
    return result


def _quotients(sums: np.ndarray, names: list[str]) -> np.ndarray:
    """The figures of sums, shape (..., figures, 2); NaN where one is 0 / 0."""
    part, whole = sums[..., 0], sums[..., 1].copy()
    if "strict_accuracy" in names:
        # If no contradiction has evidence, the evidence was not annotated, and an empty list means nothing.
        whole[..., names.index("strict_accuracy")] *= whole[..., names.index("evidence_recall")] > 0
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _pair_shares(truth: np.ndarray, called: np.ndarray, probabilities: np.ndarray | None) -> Shares:
    """The shares of the pairs in one context, by whether its replies are contradictions and are called one."""
    # Counted without a list of the pairs, which are as many as the square of the replies to one greeting.
    pairs = int(truth.sum()) * int((~truth).sum())
    shares: Shares = {"both_right": (float(called[truth].sum() * (~called[~truth]).sum()), pairs)}
    return shares if probabilities is None else {"in_order": (_pairs_in_order(truth, probabilities), pairs), **shares}


def _compared(
    truth: np.ndarray,
    called: np.ndarray,
    probabilities: np.ndarray | None,
    clusters: np.ndarray,
    contexts: abc.Iterable[abc.Hashable] | None,
    *,
    in_items: bool,
) -> list[Shares]:
    """The shares of each cluster: those of the pairs in its contexts, and of whole items if clusters are items."""
    shares: list[Shares] = [{} for _ in range(clusters.max() + 1)]
    if contexts is not None:
        for rows in _members(_numbers(zip(clusters.tolist(), contexts, strict=True))):
            of_rows = None if probabilities is None else probabilities[rows]
            _add(shares[clusters[rows[0]]], _pair_shares(truth[rows], called[rows], of_rows))
    for entry, rows in zip(shares, _members(clusters), strict=True):
        if in_items and truth[rows].any() and not truth[rows].all():
            entry["all_right"] = (float((truth == called)[rows].all()), 1)
    return shares


def _crossed_shares(rows: list[tuple[dict[str, Any], float]], threshold: float) -> list[Shares]:
    """The shares of each item of the crossed chats."""
    items = [row["item"] for row, _ in rows]
    # The id of a quadruple's row ends with the letters of its chat and its reply; a pair has one chat.
    ends = [row["id"].rpartition("-")[2] for row, _ in rows]
    chats = [end[0] if len(end) == 2 else "" for end in ends]
    truth = np.array([row["label"] > 0 for row, _ in rows])
    values = np.array([probability for _, probability in rows])
    replies = Counter(zip(items, chats, truth.tolist(), strict=True))
    for item, chat, contradicts in replies:
        if replies[item, chat, contradicts] != 1 or not replies[item, chat, not contradicts]:
            raise ValueError(f"references have rows of item {item!r} twice or not at all; give each of its rows once")
    return _compared(truth, values >= threshold, values, _numbers(items), chats, in_items=True)


def _evidence_shares(
    contradicts: bool, right: bool, evidence: abc.Collection[int] | None, named: abc.Collection[int]
) -> Shares:
    """The shares of one reply, by whether it is a contradiction, whether its label is right, and its evidence."""
    gold, found = set(evidence or ()), set(named)
    marked = contradicts and bool(gold)
    hits, predicted, total = (marked * len(indices) for indices in (gold & found, found, gold))
    return {
        "evidence_precision": (hits, predicted),
        "evidence_recall": (hits, total),
        "evidence_f1": (2 * hits, predicted + total),
        "strict_accuracy": (right and gold == found and evidence is not None, evidence is not None),
    }


def _selection_shares(right: int, scores: list[float]) -> Shares:
    above = sum(score > scores[right] for score in scores)
    places = range(above + 1, above + scores.count(scores[right]) + 1)  # of the replies with the same score
    ties = len(places)
    return {
        "r1": (sum(place <= 1 for place in places) / ties, 1),
        "r2": (sum(place <= 2 for place in places) / ties, 1),
        "mrr": (sum(1 / place for place in places) / ties, 1),
    }


def _task(name: str) -> str:
    task = _scored_as(name.removesuffix(GROUPED)) if isinstance(name, str) else name
    if not isinstance(task, str) or task not in LABELS:
        allowed = ", ".join(map(repr, LABELS))
        raise ValueError(
            f"the task is {short(name)}; allowed are {allowed}, each also with '{GROUPED}' at its end, and "
            f"{', '.join(map(repr, ROW_TASKS))}"
        )
    return task


def _scored_as(name: str) -> str:
    return SCORED_AS.get(name, name)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _plain(values: Any) -> Any:
    """Arrays, tensors and series as lists of plain numbers; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def _label(value: Any, where: str, task: str) -> int:
    """The id of a label."""
    names = LABELS[task]
    label = names.index(value) if isinstance(value, str) and value in names else value
    # True, 1.0 and "1" are refused, not read as 1: most often they come from another column.
    if not _is_integer(label) or not 0 <= label < len(names):
        allowed = f"0-{len(names) - 1} or {', '.join(map(repr, names))}"
        raise ValueError(f"{where} is {short(value)}; allowed for {task} are {allowed}")
    return int(label)


def _probability(value: Any, where: str) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{where} is {short(value)}; allowed are probabilities from 0 to 1")
    return float(value)


def _crossed_row(row: object, where: str) -> dict[str, Any]:
    """A row of the crossed chats with its label as a number."""
    if not isinstance(row, abc.Mapping) or not all(isinstance(row.get(name), str) for name in ("id", "item")):
        raise ValueError(f"{where} is {short(row)}; allowed are dicts with 'id', 'item' and 'label'")
    return {"id": row["id"], "item": row["item"], "label": _label(row.get("label"), f"{where}['label']", "4-class")}


def _scores(row: object, where: str) -> list[float]:
    """The scores of the replies of an item."""
    values = _plain(row)
    if (
        not isinstance(values, list | tuple)
        or len(values) < 2
        or not all(_is_number(value) and np.isfinite(value) for value in values)
    ):
        raise ValueError(f"{where} is {short(values)}; allowed are lists of a number for each of at least two replies")
    return [float(value) for value in values]


def _right(row: Any, where: str) -> int:
    """The index of the right reply of an item."""
    if not _is_integer(row) or row < 0:
        raise ValueError(f"{where} is {short(row)}; allowed is the index of the right reply")
    return int(row)


# How the predictions and the references of a task are read.
READERS: dict[str, tuple[Reader, Reader]] = {
    CROSSED: (_probability, _crossed_row),
    SELECTION: (_scores, _right),
}
ROW_TASKS = tuple(READERS)


def _rows(values: object, argument: str, task: str) -> list[Any]:
    """The rows of a column: class ids, or what else a task has. Raises ValueError for a row that is not valid."""
    listed = _plain(values)
    if isinstance(listed, str | bytes | abc.Mapping | abc.Set) or not isinstance(listed, abc.Iterable):
        rows = "rows" if task in ROW_TASKS else "class ids or label names"
        raise ValueError(f"{argument} is {short(values)}; allowed are lists or arrays of {rows}")
    if task not in ROW_TASKS:
        labels = list(listed)
        if {*map(type, labels)} == {int} and min(labels) >= 0 and max(labels) < len(LABELS[task]):
            return labels  # the usual case, without a look at each label
        return [_label(value, f"{argument}[{index}]", task) for index, value in enumerate(labels)]
    read = READERS[task][argument == "references"]
    return [read(row, f"{argument}[{index}]") for index, row in enumerate(listed)]


def _columns(task: str, **columns: object) -> dict[str, list[Any]]:
    """The rows of each column. Raises ValueError for a row that is not valid, other lengths, or no rows."""
    rows = {argument: _rows(values, argument, task) for argument, values in columns.items()}
    _check_lengths(rows)
    if not all(rows.values()):
        raise ValueError(f"{' and '.join(rows)} are empty; at least one row is needed")
    if task == SELECTION:
        for index, (right, scores) in enumerate(zip(rows["references"], rows["predictions"], strict=True)):
            if right >= len(scores):
                raise ValueError(f"references[{index}] is {right}; predictions[{index}] has {len(scores)} scores")
    return rows


def _check_lengths(columns: dict[str, list[Any]]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("lengths differ: " + ", ".join(f"{len(column)} {name}" for name, column in columns.items()))


def _count(task: str, **columns: object) -> np.ndarray:
    """Counts the rows in each cell, with one axis for each column."""
    counts = np.zeros([len(LABELS[task])] * len(columns), dtype=np.int64)
    np.add.at(counts, tuple(_columns(task, **columns).values()), 1)
    return counts


def _merge(counts: np.ndarray, task: str, axes: int) -> np.ndarray:
    """Merges the classes of the last axes to two."""
    # tensordot removes an axis and appends the merged one. Once for each of the last axes keeps their order.
    for _ in range(axes):
        counts = np.tensordot(counts, MERGE[task], axes=(-axes, 0))
    return counts


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _hits(counts: np.ndarray) -> np.ndarray:
    return np.diagonal(counts, axis1=-2, axis2=-1)


def _f1(counts: np.ndarray) -> np.ndarray:
    return _ratio(2 * _hits(counts), counts.sum(axis=-1) + counts.sum(axis=-2))


def _macro_f1(counts: np.ndarray) -> np.ndarray:
    # The F1 of a label without references is 0, so it adds nothing to the sum.
    return _f1(counts).sum(axis=-1) / (counts.sum(axis=-1) > 0).sum(axis=-1)


# Figures of confusion matrices: functions of counts of shape (..., classes, classes), references by predictions. To add
# one, name it here: `score` then gives it with an interval, `compare` gives its difference, and the page shows both.
FIGURES: dict[str, Figure] = {
    "accuracy": lambda counts: _ratio(_hits(counts).sum(axis=-1), counts.sum(axis=(-2, -1))),
    "macro_f1": _macro_f1,
}
# Figures of each class, of shape (..., classes).
CLASS_FIGURES: dict[str, Figure] = {
    "precision": lambda counts: _ratio(_hits(counts), counts.sum(axis=-2)),
    "recall": lambda counts: _ratio(_hits(counts), counts.sum(axis=-1)),
    "f1": _f1,
    "support": lambda counts: counts.sum(axis=-1),
}


def _reports(counts: np.ndarray, draws: np.ndarray | None, task: str, resampling: Bootstrap) -> dict[str, Any]:
    """The report of a task, and that of its merge to two classes."""
    result = _report(counts, draws, task, resampling)
    if task in MERGE:
        merged_draws = None if draws is None else _merge(draws, task, 2)
        result["two_class"] = _report(_merge(counts, task, 2), merged_draws, "2-class", resampling)
    return result


def _report(counts: np.ndarray, draws: np.ndarray | None, task: str, resampling: Bootstrap) -> dict[str, Any]:
    labels, by_class = LABELS[task], {name: figure(counts) for name, figure in CLASS_FIGURES.items()}
    result: dict[str, Any] = {
        **{name: float(figure(counts)) for name, figure in FIGURES.items()},
        "per_class": {label: {name: by_class[name][i].item() for name in by_class} for i, label in enumerate(labels)},
        "confusion_matrix": counts.tolist(),
        "labels": list(labels),
        "n": int(counts.sum()),
    }
    if draws is not None:
        result["interval"] = resampling.interval({name: figure(draws) for name, figure in FIGURES.items()})
    return result


def _differences(counts: np.ndarray) -> dict[str, np.ndarray]:
    ours, baseline = counts.sum(axis=-1), counts.sum(axis=-2)
    return {f"{name}_difference": figure(ours) - figure(baseline) for name, figure in FIGURES.items()}


def _contrast(counts: np.ndarray, draws: np.ndarray, resampling: Bootstrap) -> dict[str, Any]:
    drawn = _differences(draws)
    rounding = 1e-12  # sums in another order make equal scores differ by at most this much
    difference = drawn["macro_f1_difference"]
    tail = min(int((difference <= rounding).sum()), int((difference >= -rounding).sum()))
    right = np.eye(len(counts), dtype=bool)  # by reference and prediction
    only_ours = int(counts[right[:, :, None] & ~right[:, None, :]].sum())
    only_baseline = int(counts[~right[:, :, None] & right[:, None, :]].sum())
    either = only_ours + only_baseline
    return {
        **{name: float(value) for name, value in _differences(counts).items()},
        "interval": resampling.interval(drawn),
        "p_value": min(1.0, 2 * (tail + 1) / (len(draws) + 1)),
        "mcnemar": {
            "only_predictions_right": only_ours,
            "only_baseline_right": only_baseline,
            "p_value": float(binomtest(only_ours, either).pvalue) if either else 1.0,
        },
    }


@add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class CDConvMetric(evaluate.Metric):
    """The configs are "4-class" (the default), the other keys of `LABELS`, and the names in `ROW_TASKS`.

    Those of labels also have a twin with "-grouped" at its end. Other configs of the data set are in `SCORED_AS`.
    """

    def _info(self) -> evaluate.MetricInfo:
        name = "4-class" if self.config_name == "default" else _scored_as(self.config_name)
        self.task = name if name in ROW_TASKS else _task(name)
        integer, text, number = map(datasets.Value, ("int64", "string", "float64"))
        pairs = {  # predictions and references
            CROSSED: [(number, {"id": text, "item": text, "label": integer})],
            SELECTION: [(datasets.List(number), integer)],
        }.get(self.task, [(predicted, right) for predicted in (integer, text) for right in (integer, text)])
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[datasets.Features({"predictions": p, "references": r}) for p, r in pairs],
            homepage="https://github.com/thu-coai/CDConv",
        )

    # evaluate's own encoding turns 1.7, True and "1" into the class id 1, so all labels are checked before it.
    def add(self, *, prediction: int | str | None = None, reference: int | str | None = None, **row: object) -> None:
        """Adds one row. Raises ValueError if it is not one of the config's."""
        row = {"predictions": prediction, "references": reference, **row}  # combine() uses the plural names
        labels = {name: _rows([row.pop(name)], name, self.task)[0] for name in self._feature_names()}
        super().add(**labels, **row)

    def add_batch(self, *, predictions: Labels | None = None, references: Labels | None = None, **more: Any) -> None:
        """Adds rows. Raises ValueError and adds none if the lists are not valid."""
        super().add_batch(**_columns(self.task, predictions=predictions, references=references), **more)

    def compute(
        self,
        *,
        predictions: Labels | None = None,
        references: Labels | None = None,
        baseline_predictions: Labels | None = None,
        **options: Any,
    ) -> dict[str, Any] | None:
        """Scores the rows given here and those added before.

        Raises ValueError and keeps all rows on invalid input, except where an item of "crossed" lacks a row.
        """
        known = [*Bootstrap.__dataclass_fields__, *(["threshold"] if self.task == CROSSED else [])]
        if unknown := [name for name in options if name not in known]:
            compared = [] if self.task in ROW_TASKS else ["baseline_predictions"]
            known = ["predictions", "references", *compared, *known]
            raise TypeError(f"{unknown[0]} is not an argument; the arguments are {', '.join(known)}")
        _probability(options.get("threshold", 0.5), "threshold")
        Bootstrap(**{name: value for name, value in options.items() if name != "threshold"})
        columns: dict[str, list[Any]] = {}
        if self.task in ROW_TASKS and baseline_predictions is not None:
            raise ValueError(f"the config {self.task!r} compares no predictions; leave baseline_predictions out")
        if self.task in ROW_TASKS and options.get("stratified"):
            raise ValueError(f"the config {self.task!r} has no classes to stratify by; leave stratified out")
        if predictions is not None or references is not None:
            columns = _columns(self.task, predictions=predictions, references=references)
        elif not len(self):
            raise ValueError("no rows to score: give predictions and references here, or add them before")
        baseline = None
        if baseline_predictions is not None:
            baseline = _rows(baseline_predictions, "baseline_predictions", self.task)
            rows = len(self) + len(columns.get("references", ()))
            if len(baseline) != rows and self.num_process == 1:  # else this process holds a part of the rows only
                raise ValueError(
                    f"lengths differ: {rows} references and predictions, {len(baseline)} baseline_predictions"
                )
        return super().compute(**columns, baseline_predictions=baseline, **options)

    def _compute(
        self, predictions: list[Any], references: list[Any], baseline_predictions: list[int] | None, **options: Any
    ) -> dict[str, Any]:
        if self.task in ROW_TASKS:
            options.pop("stratified", None)
            return score_rows(references, predictions, self.task, **options)
        result = score(references, predictions, self.task, **options)
        if baseline_predictions is not None:
            options["bootstrap"] = options.get("bootstrap") or RESAMPLES
            result["comparison"] = compare(references, predictions, baseline_predictions, self.task, **options)
        return result
