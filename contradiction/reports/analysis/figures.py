"""Looks into an evaluation: where a detector fails, what its probabilities are worth, whether it reads the history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.detector import ContradictionDetector
from contradiction.evaluation import results
from contradiction.evaluation.evaluate import evaluate
from contradiction.labels import CONTRADICTION
from contradiction.rates import IN_USE
from contradiction.reports.analysis.errors import WORST, errors, kinds
from contradiction.reports.analysis.predictions import Material, check_task, load
from contradiction.reports.analysis.scores import brier, calibration_error, curve, operating_points, reliability
from contradiction.reports.analysis.slices import Records, personas, slices
from contradiction.reports.analysis.turns import judge_without_first_turn, reads_first_turn, removal


@dataclass(frozen=True)
class Analysis:
    """The figures, each group of them as records: dicts of one shape, fractions unrounded.

    Attributes:
        material: what was analysed.
        slices, personas, classes, confusion, reliability, curve, operating_points, errors, kinds: see the functions of
            these names, and ``classes`` and ``confusion`` below.
        comparison: the detector, then the kept artefact baselines on the same rows, with paired differences.
        removal: what becomes of verdicts without the first turn; None where that was not measured.
        removal_note: why not; else None.
        calibration_error, brier: of P(contradiction).
        prior, brier_of_prior: the share of contradictions, and the Brier score of saying nothing but that.
        average_precision: the area under the precision-recall curve, at that share.
    """

    material: Material
    slices: Records
    personas: Records
    classes: Records
    confusion: Records
    comparison: Records
    reliability: Records
    calibration_error: float
    brier: float
    prior: float
    brier_of_prior: float
    average_precision: float
    curve: Records
    operating_points: Records
    removal: Records | None
    removal_note: str | None
    errors: Records
    kinds: Records

    def tables(self) -> dict[str, Records]:
        """What is written as CSV, by file name."""
        found = {
            "slices": self.slices,
            "personas": self.personas,
            "classes": self.classes,
            "confusion": self.confusion,
            "comparison": self.comparison,
            "reliability": self.reliability,
            "precision_recall": self.curve,
            "operating_points": self.operating_points,
            "removal": self.removal or [],
            "errors": self.errors[:WORST],
            "kinds": self.kinds,
        }
        return {name: records for name, records in found.items() if records}


def measure(
    detector: ContradictionDetector,
    *,
    data: str | Path,
    config: str,
    split: str = "test",
    on_start: Callable[[int], Any] | None = None,
    on_batch: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Evaluates a detector as ``cdconv evaluate`` does, and once more with the first turn removed.

    Args:
        detector: what to analyse.
        data: the data repo.
        config: of two or four classes.
        split: of that config.
        on_start: called with the number of forward passes over a row that are to come.
        on_batch: called with the number of them done, after each batch.

    Returns:
        The evaluation to keep; with ``without_first_turn``, the class ids without it, for a detector that reads it.

    Raises:
        InputError: the config tells no contradictions from other replies, or the detector predicts other labels.
    """
    check_task(config)
    passes = 2 if reads_first_turn(detector.columns) else 1
    result = evaluate(
        detector,
        data=data,
        config=config,
        split=split,
        on_start=on_start and (lambda rows: on_start(passes * rows)),
        on_batch=on_batch,
    )
    if passes == 1:
        return {**result, "without_first_turn": None}
    material = load(result, data)
    without = judge_without_first_turn(detector, material.rows, material.task, on_batch=on_batch)
    return {**result, "without_first_turn": without}


def analyse(result: Mapping[str, Any], data: str | Path, folder: str | Path = results.FOLDER) -> Analysis:
    """Makes the figures of a kept evaluation; no model is needed.

    Args:
        result: with probabilities, see ``contradiction.reports.analysis.predictions.read_kept``.
        data: the data repo that it was made on.
        folder: of the kept artefact baselines.

    Raises:
        InputError: the evaluation was made on other rows.
    """
    from sklearn.metrics import average_precision_score

    material = load(result, data)
    truth = material.are_contradictions(material.references)
    prior = float(truth.mean())
    points = curve(truth, material.contradiction_probabilities)
    bins = reliability(truth, material.contradiction_probabilities)
    wrong = errors(material)
    without = result.get("without_first_turn")
    metrics = result["metrics"]
    return Analysis(
        material=material,
        slices=slices(material),
        personas=personas(material),
        classes=[{"label": label, **one} for label, one in metrics["per_class"].items()],
        confusion=[
            {"label": label, **dict(zip(metrics["labels"], row, strict=True))}
            for label, row in zip(metrics["labels"], metrics["confusion_matrix"], strict=True)
        ],
        comparison=compare_baselines(material, folder),
        reliability=bins,
        calibration_error=calibration_error(bins),
        brier=brier(truth, material.contradiction_probabilities),
        prior=prior,
        brier_of_prior=prior * (1 - prior),
        average_precision=float(average_precision_score(truth, material.contradiction_probabilities)),
        curve=points,
        operating_points=[
            *operating_points(points, len(truth), prior),
            *operating_points(points, len(truth), IN_USE),
        ],
        removal=removal(material, without) if without else None,
        removal_note=None if without else _why_not(result),
        errors=wrong,
        kinds=kinds(material, wrong),
    )


def _why_not(result: Mapping[str, Any]) -> str:
    if "without_first_turn" in result:
        return f"{result['name']} reads neither u1 nor b1, so that removing them changes nothing."
    return (
        "This evaluation does not hold it, and it cannot be had without the detector: cdconv analyze with the model, "
        "in place of the evaluation, measures it."
    )


def compare_baselines(material: Material, folder: str | Path = results.FOLDER) -> Records:
    """The detector beside the kept artefact baselines that were scored on the same rows.

    Returns:
        A record each: name, macro_f1, low, high; precision and recall of contradictions (all kinds merged), and
        false_alarm_rate; of a baseline also difference (detector minus baseline, paired bootstrap), difference_low,
        difference_high, p_value.
    """
    from evaluate_metric.evaluate_metric import compare

    result = material.result
    found = [_summary(result)]
    for each in results.baselines(result["config"], result["split"], folder):
        if (each["ids"], each["references"]) != (list(result["ids"]), list(result["references"])):
            continue
        gap = compare(result["references"], result["predictions"], each["predictions"], material.task)
        low, high = gap["interval"]["macro_f1_difference"]
        found.append(
            {
                **_summary(each),
                "difference": gap["macro_f1_difference"],
                "difference_low": low,
                "difference_high": high,
                "p_value": gap["p_value"],
            }
        )
    return found


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    metrics = result["metrics"]
    low, high = metrics["interval"]["macro_f1"]
    merged = metrics.get("two_class", metrics)
    contradictions = merged["per_class"][CONTRADICTION]
    (stays, alarms), _ = merged["confusion_matrix"]
    return {
        "name": result["name"],
        "macro_f1": metrics["macro_f1"],
        "low": low,
        "high": high,
        "precision": contradictions["precision"],
        "recall": contradictions["recall"],
        "false_alarm_rate": alarms / (stays + alarms) if stays + alarms else 0.0,
    }
