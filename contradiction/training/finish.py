"""Completes a model folder with what is made from the checkpoints in it: a decision rule and a card."""

from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.labels import task_with
from contradiction.methods.calibration import calibrate
from contradiction.reports.model_cards import model_card

if TYPE_CHECKING:
    from datasets import Dataset


def complete(folder: Path, name: str, validation: "Dataset") -> None:
    """Adds to a model folder its decision rule, chosen on validation, and its card; an NLI model gets no rule.

    Of several processes only the main one is here. A run that is killed here comes here again on resume.

    Args:
        folder: with the final weights and their record.
        name: of the model, for its card.
        validation: the rows that its checkpoints were chosen on.
    """
    if task_with(validation.features["label"].names) != "nli":  # an NLI model is a start, not a detector
        calibrate(folder, validation)
    model_card(folder, name=name).save(folder / "README.md")
