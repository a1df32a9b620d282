"""Completes a model folder with the decision rule that is chosen for the checkpoints in it."""

from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.labels import task_with
from contradiction.methods.calibration import calibrate

if TYPE_CHECKING:
    from datasets import Dataset


def complete(folder: Path, validation: "Dataset") -> None:
    """Adds to a model folder its decision rule, chosen on validation; an NLI model gets none.

    Of several processes only the main one is here. A run that is killed here comes here again on resume.

    Args:
        folder: with the final weights and their record.
        validation: the rows that its checkpoints were chosen on.
    """
    if task_with(validation.features["label"].names) != "nli":  # an NLI model is a start, not a detector
        calibrate(folder, validation)
