"""Own labels to a detector of one's own: what is fitted, how it is measured, and when the old detector stays."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.base_detector import BaseDetector
from contradiction.chats.messages import USUAL, Speakers
from contradiction.data import labelled
from contradiction.errors import InputError
from contradiction.evaluation.chat_calibration import Calibrated, fit
from contradiction.inference.base import OnBatch
from contradiction.io.files import check_new, new_folder
from contradiction.labels import CONTRADICTION, NON_CONTRADICTION
from contradiction.methods.loading import load_classifier, save_rule
from contradiction.paths import SHIPPED
from contradiction.reports.model_card import model_card
from contradiction.training import leakage, record
from evaluate_metric.evaluate_metric import RESAMPLES, compare, score


@dataclass(frozen=True)
class Adapted:
    """A detector that was adapted to labelled chats, or the reason why the old one stays.

    Attributes:
        folder: the new model folder; None where the old detector is not worse.
        calibration: the fitted rule, and the decisions on each chat before and after.
        before: the scores of the old detector on the chats, as the metric gives them for two classes.
        after: those of rules that were each fitted to four fifths of the chats, on the other fifth.
        difference: after minus before, as the metric compares two detectors.
    """

    folder: Path | None
    calibration: Calibrated
    before: dict[str, Any]
    after: dict[str, Any]
    difference: dict[str, Any]


def adapt(
    labels: str | Path,
    out: str | Path | None = None,
    *,
    model: str | Path = SHIPPED,
    speakers: Speakers = USUAL,
    on_batch: OnBatch | None = None,
) -> Adapted:
    """Adapts a detector to chats that its owner has labelled; there is nothing to choose.

    Probabilities and threshold are fitted to the chats, and the weights stay: with 100, 300 and 1,000 labels from
    CDConv, further training did not order the held-out replies better (``docs/training.md`` has the figures). The new
    rule is measured by cross-validation. Chats that begin alike are held out together. It is kept if its macro-F1 is
    higher than that of the old one.

    Args:
        labels: a file of labelled chats, see :mod:`contradiction.data.labelled`.
        out: the folder to write, by default ``runs/LABELS``.
        model: the folder of the detector to start from.
        speakers: the names of speakers in the file.
        on_batch: called with the number of rows done, after each forward pass.

    Raises:
        InputError: the file is not valid, it has too few contradictions or other chats, the detector was trained on it
            or fitted to it, or ``out`` exists.
    """
    labels, model = Path(labels), Path(model)
    out = Path("runs") / labels.name.partition(".")[0] if out is None else Path(out)
    check_new(out, [model])
    chats, name = labelled.read(labels, speakers), labelled.name_of_file(labels)
    if known := leakage.describe_chats(record.read(model), name, labelled.WHOLE):
        raise InputError(f"{model} {known}; start from a detector that does not know these chats")
    calibration = fit(BaseDetector(load_classifier(model)), chats, on_batch)
    truth, old, new = (
        [CONTRADICTION if called else NON_CONTRADICTION for called in decisions]
        for decisions in (calibration.truth, calibration.called_before, calibration.called_held_out)
    )
    before, after = (score(truth, decided, "2-class", bootstrap=RESAMPLES) for decided in (old, new))
    difference = compare(truth, new, old, "2-class")
    if difference["macro_f1_difference"] <= 0:
        return Adapted(None, calibration, before, after, difference)
    with new_folder(out) as folder:
        shutil.copytree(model, folder, dirs_exist_ok=True)
        save_rule(folder, calibration.rule)
        record.write_calibrated_on(folder, name)
        if record.read(folder).get("request"):  # a checkpoint of another tool keeps its card
            model_card(folder).save(folder / "README.md")
    return Adapted(out, calibration, before, after, difference)
