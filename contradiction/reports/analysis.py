"""The analysis of an evaluation: where a detector fails, and how reliable its probabilities are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.decision import IN_USE
from contradiction.detector import ContradictionDetector
from contradiction.evaluation import results
from contradiction.evaluation.error_analysis import (
    BY,
    FIRST_TURN,
    WORST,
    EvaluatedRows,
    Records,
    judge_without_first_turn,
    kinds,
    load_rows,
    mistakes,
    personas,
    removal,
    slices,
)
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.results import check_task
from contradiction.evaluation.thresholds import calibration_error, operating_points, reliability, threshold_curve
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import CONTRADICTION
from contradiction.paths import RESULTS

ON_CARD = (BY["seen_context"], BY["bot"])  # the slices that a model card shows


@dataclass(frozen=True)
class Analysis:
    """The figures of an analysis, mostly as tables of records, with unrounded fractions.

    Attributes:
        evaluated: the evaluation and its rows.
        slices, personas, reliability, removal, mistakes, kinds: see the functions of these names. ``removal`` is None
            without the removal test.
        classes: precision, recall, F1 and support of each label.
        confusion: the confusion matrix, a record for each label.
        comparison: see :func:`compare_baselines`.
        curve: see :func:`contradiction.evaluation.thresholds.threshold_curve`.
        operating_points: the operating points at the fraction of contradictions of these rows, then at that in use.
        removal_note: why there is no removal test; else None.
        calibration_error, brier: the calibration error and the Brier score of P(contradiction).
        prior: the fraction of contradictions.
        average_precision: the area under the precision-recall curve, at that fraction.
    """

    evaluated: EvaluatedRows
    slices: Records
    personas: Records
    classes: Records
    confusion: Records
    comparison: Records
    reliability: Records
    calibration_error: float
    brier: float
    prior: float
    average_precision: float
    curve: Records
    operating_points: Records
    removal: Records | None
    removal_note: str | None
    mistakes: Records
    kinds: Records

    def tables(self) -> dict[str, Records]:
        """The non-empty tables by the names of their CSV files."""
        tables = {
            "slices": self.slices,
            "personas": self.personas,
            "classes": self.classes,
            "confusion": self.confusion,
            "comparison": self.comparison,
            "reliability": self.reliability,
            "precision_recall": self.curve,
            "operating_points": self.operating_points,
            "removal": self.removal or [],
            "errors": self.mistakes[:WORST],
            "kinds": self.kinds,
        }
        return {name: records for name, records in tables.items() if records}


def measure(
    detector: ContradictionDetector,
    *,
    data: str | Path,
    config: str,
    split: str = "test",
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Evaluates a detector like ``cdconv evaluate``, and once more without the first turn.

    Returns:
        The evaluation. ``without_first_turn`` has the class ids without the first turn, or None for a detector that
        does not read it.

    Raises:
        InputError: the labels of the config are not those of contradictions, or the detector has other labels.
    """
    check_task(config)
    passes = 2 if set(FIRST_TURN) & set(detector.columns) else 1
    evaluation = evaluate(
        detector,
        data=data,
        config=config,
        split=split,
        on_start=on_start and (lambda rows: on_start(passes * rows)),
        on_batch=on_batch,
    )
    if passes == 1:
        return {**evaluation, "without_first_turn": None}
    evaluated = load_rows(evaluation, data)
    without = judge_without_first_turn(detector, evaluated.rows, evaluated.task, on_batch=on_batch)
    return {**evaluation, "without_first_turn": without}


def analyse(evaluation: Mapping[str, Any], data: str | Path, folder: str | Path = RESULTS) -> Analysis:
    """Analyses an evaluation with probabilities, without a model; ``folder`` has saved results with the baselines.

    Raises:
        InputError: the evaluation was made on other rows.
    """
    from sklearn.metrics import average_precision_score, brier_score_loss

    evaluated = load_rows(evaluation, data)
    truth = evaluated.is_contradiction()
    probabilities = evaluated.contradiction_probability()
    prior = float(truth.mean())
    curve = threshold_curve(truth, probabilities)
    bins = reliability(truth, probabilities)
    errors = mistakes(evaluated)
    without = evaluation.get("without_first_turn")
    metrics = evaluation["metrics"]
    return Analysis(
        evaluated=evaluated,
        slices=slices(evaluated),
        personas=personas(evaluated),
        classes=[{"label": label, **scores} for label, scores in metrics["per_class"].items()],
        confusion=[
            {"label": label, **dict(zip(metrics["labels"], row, strict=True))}
            for label, row in zip(metrics["labels"], metrics["confusion_matrix"], strict=True)
        ],
        comparison=compare_baselines(evaluated, folder),
        reliability=bins,
        calibration_error=calibration_error(bins),
        brier=float(brier_score_loss(truth, probabilities)),
        prior=prior,
        average_precision=float(average_precision_score(truth, probabilities)),
        curve=curve,
        operating_points=[
            *operating_points(curve, len(truth), prior),
            *operating_points(curve, len(truth), IN_USE),
        ],
        removal=removal(evaluated, without) if without else None,
        removal_note=None if without else _why_no_removal(evaluation),
        mistakes=errors,
        kinds=kinds(evaluated, errors),
    )


def _why_no_removal(evaluation: Mapping[str, Any]) -> str:
    if "without_first_turn" in evaluation:
        return f"{evaluation['name']} reads neither u1 nor b1, so removing them changes nothing."
    return "This evaluation has no removal test. Run cdconv analyze with the model instead of the evaluation."


def compare_baselines(evaluated: EvaluatedRows, folder: str | Path = RESULTS) -> Records:
    """The detector, then the saved baselines on the same rows with paired differences.

    Returns:
        A record for the detector and each baseline: name, macro_f1, low, high, precision and recall of contradictions
        of any kind, and false_alarm_rate. For a baseline also difference (detector minus baseline, paired bootstrap),
        difference_low, difference_high, p_value.
    """
    from evaluate_metric.evaluate_metric import compare

    evaluation = evaluated.evaluation
    records = [_summary(evaluation)]
    for baseline in results.baselines(evaluation["config"], evaluation["split"], folder):
        if (baseline["ids"], baseline["references"]) != (list(evaluation["ids"]), list(evaluation["references"])):
            continue
        test = compare(evaluation["references"], evaluation["predictions"], baseline["predictions"], evaluated.task)
        low, high = test["interval"]["macro_f1_difference"]
        records.append(
            {
                **_summary(baseline),
                "difference": test["macro_f1_difference"],
                "difference_low": low,
                "difference_high": high,
                "p_value": test["p_value"],
            }
        )
    return records


def _summary(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    metrics = evaluation["metrics"]
    low, high = metrics["interval"]["macro_f1"]
    merged = metrics.get("two_class", metrics)
    contradictions = merged["per_class"][CONTRADICTION]
    (not_called, alarms), _ = merged["confusion_matrix"]
    return {
        "name": evaluation["name"],
        "macro_f1": metrics["macro_f1"],
        "low": low,
        "high": high,
        "precision": contradictions["precision"],
        "recall": contradictions["recall"],
        "false_alarm_rate": alarms / (not_called + alarms) if not_called + alarms else 0.0,
    }


def card_summary(evaluation: Mapping[str, Any], data: str | Path) -> tuple[Table, float]:
    """The part of an analysis on a model card.

    Returns:
        A table of macro-F1 by context (seen in training or not) and by bot, and the calibration error.
    """
    evaluated = load_rows(evaluation, data)
    body = [
        (
            f"{record['by']}: {record['slice']}",
            f"{record['n']:,}",
            percent(record["macro_f1"]),
            interval((record["low"], record["high"])),
        )
        for record in slices(evaluated)
        if record["by"] in ON_CARD
    ]
    title = f"Parts of {evaluation['config']}, {evaluation['split']} split"
    truth = evaluated.is_contradiction()
    error = calibration_error(reliability(truth, evaluated.contradiction_probability()))
    return Table(title, ("rows", "n", "macro-F1", "95 % interval"), body), error
