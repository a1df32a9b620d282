"""The metric of CDConv: accuracy, macro-F1 and the figures of every class, with bootstrap intervals and paired tests.

`score` and `compare` are plain functions; `CDConvMetric` puts them behind `evaluate.load`. The file is a Hub Space of
its own, so it imports nothing of this project, and one module a line, as the parser of metric scripts expects.
"""

from collections import abc
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any, TypedDict, Unpack

import datasets
import evaluate
import numpy as np
from evaluate.utils.file_utils import add_start_docstrings
from scipy.stats import binomtest

# The labels of each task, in the order of their ids in the data set.
LABELS: dict[str, tuple[str, ...]] = {
    "2-class": ("non-contradiction", "contradiction"),
    "4-class": ("non-contradiction", "intra-sentence", "role-confusion", "history"),
    "persona": ("unrelated", "attributes", "opinions", "experiences"),
    "nli": ("entailment", "neutral", "contradiction"),  # what a backbone is fine-tuned on before CDConv
}
# The data set has a twin of each config, split so that no first utterance is on two sides; its labels are the same.
GROUPED = "-grouped"

# The paper's merge rule, as a 4 x 2 matrix of zeros and ones: each kind of contradiction is a contradiction.
MERGE = np.array([[label == "non-contradiction", label != "non-contradiction"] for label in LABELS["4-class"]], int)

RESAMPLES = 2000  # of a comparison, unless told otherwise

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
    predictions: class ids or label names, one a conversation.
    references: class ids or label names, of the same length; the two lists may differ in kind.
    baseline_predictions (optional): what another detector says of the same rows, in their order.
    bootstrap (int): number of resamples for the intervals; 0, the default, for none. A comparison takes 2,000 then.
    seed, confidence_level, stratified: of the resamples; 0, 0.95 and False by default. See `score`.

Returns:
    What `score` returns; with baseline_predictions also "comparison", which is what `compare` returns.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("./evaluate_metric")
    >>> names = ["non-contradiction", "history", "role-confusion", "history"]
    >>> result = metric.compute(predictions=names, references=[0, 3, 3, 3])
    >>> result["accuracy"], result["two_class"]["accuracy"]
    (0.75, 1.0)
    >>> result["per_class"]["history"]
    {'precision': 1.0, 'recall': 0.6666666666666666, 'f1': 0.8, 'support': 3}

    Macro-F1 is the mean over all four labels; "intra-sentence" does not occur, so its F1 counts as 0:

    >>> result["macro_f1"]  # (1 + 0 + 0 + 0.8) / 4
    0.45

    Batches, another config, an interval:

    >>> metric = evaluate.load("./evaluate_metric", "2-class")
    >>> metric.add_batch(predictions=[0, 1] * 100, references=[0, 1] * 50 + [1, 0] * 50)
    >>> low, high = metric.compute(bootstrap=1000)["interval"]["accuracy"]
    >>> 0.4 < low < 0.5 < high < 0.6
    True
"""

Labels = abc.Iterable[int | str]


class _Options(TypedDict, total=False):
    bootstrap: int
    seed: int
    confidence_level: float
    stratified: bool


@dataclass(frozen=True)
class Bootstrap:
    """How to resample rows; the fields are the public keywords of these names, which `_Options` types."""

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

        Rows that fall into the same cell are interchangeable. To draw n rows with replacement and count them is
        therefore a multinomial draw over the cells: the same distribution, without touching a row.
        """
        rng = np.random.default_rng(self.seed)
        groups = counts.reshape(len(counts) if self.stratified else 1, -1)
        draws = np.zeros((int(self.bootstrap), *groups.shape), dtype=np.int64)
        for index, group in enumerate(groups):
            cells = np.flatnonzero(group)  # empty cells stay out: the last cell of a draw takes what rounding leaves
            if cells.size:
                rows = group.sum()
                draws[:, index, cells] = rng.multinomial(rows, group[cells] / rows, size=len(draws))
        return draws.reshape(-1, *counts.shape)

    def interval(self, figures: dict[str, np.ndarray]) -> dict[str, Any]:
        """Percentile interval of each figure over its resamples, and what it takes to draw them again."""
        tail = (1 - float(self.confidence_level)) / 2
        return {
            **{name: np.quantile(values, [tail, 1 - tail]).tolist() for name, values in figures.items()},
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

    Every class counts in the macro mean, whether or not it occurs, and a ratio of 0 / 0 is 0: what scikit-learn gives
    with `labels=` all the labels and `zero_division=0`.

    The interval is the percentile interval over resampled rows. By default all rows are drawn together, so that class
    sizes vary as they would in another test set: choose this to say how sure a published number is, for those of
    CDConv's test set are themselves sampled. `stratified` draws within each reference class and so keeps the class
    sizes: choose it where they were fixed by design. Its intervals are somewhat narrower.

    Args:
        references: class ids or label names, one a conversation.
        predictions: class ids or label names, of the same length.
        task: "2-class", "4-class" or "persona", or the "-grouped" twin of one.
        bootstrap: number of resamples for "interval"; 0 for none.
        seed: of the resamples, from 0.
        confidence_level: of the interval, above 0 and below 1.
        stratified: whether the resamples keep the size of each reference class.

    Returns:
        "accuracy" and "macro_f1" (fractions), "per_class" (label: precision, recall, f1, support), "confusion_matrix"
        (rows: references, columns: predictions), "labels" (its order), "n" (rows); with bootstrap "interval"
        ("accuracy" and "macro_f1" as [low, high], "confidence_level", "resamples", "seed", "stratified"); for 4-class
        "two_class": all of this, from the same resamples, with the three contradictions merged as in the paper.

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
    draws = resampling.draw(counts) if bootstrap else None
    result = _report(counts, draws, task, resampling)
    if task == "4-class":
        merged_draws = None if draws is None else _merge(draws, 2)
        result["two_class"] = _report(_merge(counts, 2), merged_draws, "2-class", resampling)
    return result


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
    """Compares two detectors on the same rows: by how much is the first better, and could that be chance?

    `baseline_predictions` are class ids or label names of the detector that `predictions` are held against; `bootstrap`
    is at least 1; all else is as in `score`.

    Each resample draws rows with both their predictions, so what makes a row hard for both cancels out: far sharper
    than to look whether two intervals overlap.

    The p-value is that of the two-sided paired bootstrap for macro-F1. Of B resampled differences let b be those at or
    below 0 and a those at or above 0; then p = min(1, 2 (min(a, b) + 1) / (B + 1)): never 0, and 1 for equal
    predictions. McNemar's test asks the same about accuracy: of the rows that only one of the two gets right, does each
    get half? It is the exact binomial test, two-sided, and 1 where there is no such row.

    Returns:
        "macro_f1_difference" and "accuracy_difference" (predictions minus baseline, -1 to 1), "interval" (both as
        [low, high], and how they were drawn), "p_value", "mcnemar" ("only_predictions_right" and "only_baseline_right"
        in rows, "p_value"); for 4-class also "two_class": the same with the three contradictions merged.

    Raises:
        ValueError: an argument is not valid; the message names it, its value and what is allowed.

    Examples:
        >>> result = compare([0, 1] * 100, [0, 1] * 100, [0] * 200, task="2-class")
        >>> result["accuracy_difference"], result["mcnemar"]["only_predictions_right"], result["p_value"] < 0.01
        (0.5, 100, True)
    """
    task = _task(task)
    resampling = Bootstrap(bootstrap, seed, confidence_level, stratified)
    if not bootstrap:
        raise ValueError("bootstrap is 0; a comparison needs at least 1 resample, better 2,000")
    counts = _count(task, references=references, predictions=predictions, baseline_predictions=baseline_predictions)
    draws = resampling.draw(counts)
    result = _contrast(counts, draws, resampling)
    if task == "4-class":
        result["two_class"] = _contrast(_merge(counts, 3), _merge(draws, 3), resampling)
    return result


def _task(name: str) -> str:
    task = name.removesuffix(GROUPED) if isinstance(name, str) else name
    if not isinstance(task, str) or task not in LABELS:
        allowed = ", ".join(map(repr, LABELS))
        raise ValueError(f"the task is {short(name)}; allowed are {allowed}, each also with '{GROUPED}' at its end")
    return task


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _ids(values: object, argument: str, task: str) -> list[int]:
    listed = getattr(values, "tolist", lambda: values)()  # arrays, tensors and series hold scalars of their own
    if isinstance(listed, str | bytes | abc.Mapping | abc.Set) or not isinstance(listed, abc.Iterable):
        raise ValueError(f"{argument} is {short(values)}; allowed are lists or arrays of class ids or label names")
    names = LABELS[task]
    found = []
    for index, value in enumerate(listed):
        label = names.index(value) if isinstance(value, str) and value in names else value
        # True, 1.0 and "1" are refused, not read as 1: most often they are a threshold, a score or a column mixed up
        if not _is_integer(label) or not 0 <= label < len(names):
            allowed = f"0-{len(names) - 1} or {', '.join(map(repr, names))}"
            raise ValueError(f"{argument}[{index}] is {short(value)}; allowed for {task} are {allowed}")
        found.append(int(label))
    return found


def _columns(task: str, **columns: object) -> dict[str, list[int]]:
    """The ids of each column, once all are valid, equally long and not empty."""
    found = {argument: _ids(values, argument, task) for argument, values in columns.items()}
    if len({len(ids) for ids in found.values()}) > 1:
        raise ValueError("lengths differ: " + ", ".join(f"{len(ids)} {argument}" for argument, ids in found.items()))
    if not all(found.values()):
        raise ValueError(f"{' and '.join(found)} are empty; at least one row is needed")
    return found


def _count(task: str, **columns: object) -> np.ndarray:
    """How many rows fall into each cell; one axis a column, in the order given."""
    counts = np.zeros([len(LABELS[task])] * len(columns), dtype=np.int64)
    np.add.at(counts, tuple(_columns(task, **columns).values()), 1)
    return counts


def _merge(counts: np.ndarray, axes: int) -> np.ndarray:
    # tensordot takes out an axis and appends the merged one: done once for each of the last axes, their order is kept
    for _ in range(axes):
        counts = np.tensordot(counts, MERGE, axes=(-axes, 0))
    return counts


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _figures(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of confusion matrices (..., classes, classes): two of shape (...), then four of shape (..., classes)."""
    hits, support, predicted = np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1), counts.sum(axis=-2)
    f1 = _ratio(2 * hits, support + predicted)
    return {
        "accuracy": _ratio(hits.sum(axis=-1), support.sum(axis=-1)),
        "macro_f1": f1.mean(axis=-1),
        "precision": _ratio(hits, predicted),
        "recall": _ratio(hits, support),
        "f1": f1,
        "support": support,
    }


def _report(counts: np.ndarray, draws: np.ndarray | None, task: str, resampling: Bootstrap) -> dict[str, Any]:
    figures, labels = _figures(counts), LABELS[task]
    each = ("precision", "recall", "f1", "support")
    result: dict[str, Any] = {
        "accuracy": float(figures["accuracy"]),
        "macro_f1": float(figures["macro_f1"]),
        "per_class": {label: {name: figures[name][i].item() for name in each} for i, label in enumerate(labels)},
        "confusion_matrix": counts.tolist(),
        "labels": list(labels),
        "n": int(counts.sum()),
    }
    if draws is not None:
        drawn = _figures(draws)
        result["interval"] = resampling.interval({name: drawn[name] for name in ("accuracy", "macro_f1")})
    return result


def _differences(counts: np.ndarray) -> dict[str, np.ndarray]:
    ours, baseline = _figures(counts.sum(axis=-1)), _figures(counts.sum(axis=-2))
    return {f"{name}_difference": ours[name] - baseline[name] for name in ("accuracy", "macro_f1")}


def _contrast(counts: np.ndarray, draws: np.ndarray, resampling: Bootstrap) -> dict[str, Any]:
    drawn = _differences(draws)
    rounding = 1e-12  # equal scores that are reached by different sums differ by this much at most
    macro_f1 = drawn["macro_f1_difference"]
    tail = min(int((macro_f1 <= rounding).sum()), int((macro_f1 >= -rounding).sum()))
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
    """The configs are "4-class" (the default), "2-class" and "persona", and the "-grouped" twin of each."""

    def _info(self) -> evaluate.MetricInfo:
        self.task = "4-class" if self.config_name == "default" else _task(self.config_name)
        kinds = [datasets.Value("int64"), datasets.Value("string")]
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[datasets.Features({"predictions": p, "references": r}) for p in kinds for r in kinds],
            homepage="https://github.com/thu-coai/CDConv",
        )

    # evaluate's own encoding makes 1.7, True and "1" the class id 1 without a word. Labels are therefore checked before
    # it, all of them before any row is kept, and what it stores is always ids.

    def add(self, *, prediction: int | str | None = None, reference: int | str | None = None, **row: object) -> None:
        """Adds one row. Raises ValueError where a label is not one of the config's."""
        row = {"predictions": prediction, "references": reference, **row}  # combine() calls with the plural names
        labels = {name: _ids([row.pop(name)], name, self.task)[0] for name in self._feature_names()}
        super().add(**labels, **row)

    def add_batch(
        self, *, predictions: Labels | None = None, references: Labels | None = None, **columns: object
    ) -> None:
        """Adds rows. Raises ValueError, and adds none, where the lists are not valid."""
        super().add_batch(**_columns(self.task, predictions=predictions, references=references), **columns)

    def compute(
        self,
        *,
        predictions: Labels | None = None,
        references: Labels | None = None,
        baseline_predictions: Labels | None = None,
        **options: Unpack[_Options],
    ) -> dict[str, Any] | None:
        """Scores the rows given here and those added before. Raises ValueError, and keeps those, on invalid input."""
        Bootstrap(**options)
        columns: dict[str, list[int]] = {}
        if predictions is not None or references is not None:
            columns = _columns(self.task, predictions=predictions, references=references)
        elif not len(self):
            raise ValueError("no rows to score: give predictions and references here, or add them before")
        baseline = None
        if baseline_predictions is not None:
            baseline = _ids(baseline_predictions, "baseline_predictions", self.task)
            rows = len(self) + len(columns.get("references", ()))
            if len(baseline) != rows and self.num_process == 1:  # else this process holds only its share of the rows
                raise ValueError(
                    f"lengths differ: {rows} references and predictions, {len(baseline)} baseline_predictions"
                )
        return super().compute(**columns, baseline_predictions=baseline, **options)

    def _compute(
        self,
        predictions: list[int],
        references: list[int],
        baseline_predictions: list[int] | None,
        **options: Unpack[_Options],
    ) -> dict[str, Any]:
        result = score(references, predictions, self.task, **options)
        if baseline_predictions is not None:
            options["bootstrap"] = options.get("bootstrap") or RESAMPLES
            result["comparison"] = compare(references, predictions, baseline_predictions, self.task, **options)
        return result
