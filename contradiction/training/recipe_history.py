"""Recipes as earlier versions wrote them: their records and files still load.

Until version 1 a recipe had no tables, other names, and options that this version no longer has.
"""

from collections.abc import Mapping
from typing import Any

from contradiction.inputs.views import HIERARCHICAL
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_options import TABLES

# Old name -> where the value stands now.
MOVED: Mapping[str, str] = {
    "config": "data.config",
    "view": "data.view",
    "target": "data.target",
    "bot": "data.bot",
    "share": "data.train_fraction",
    "backbone": "model.backbone",
    "base_model": "model.base_model",
    "scratch": "model.scratch",
    "dropout": "model.dropout",
    "max_length": "model.max_length",
    "epochs": "optimizer.epochs",
    "batch_size": "optimizer.batch_size",
    "learning_rate": "optimizer.learning_rate",
    "warmup": "optimizer.warmup_ratio",
    "weight_decay": "optimizer.weight_decay",
    "ema": "optimizer.ema",
    "class_weights": "loss.class_weights",
    "logit_adjustment": "loss.logit_adjustment",
    "teachers": "distillation.teachers",
    "ngrams": "distillation.ngram_teacher_weight",
    "distill": "distillation.weight",
    "distill_temperature": "distillation.temperature",
    "transfer": "distillation.transfer_per_row",
    "nli": "augmentation.nli",
    "nli_pairs": "augmentation.nli_pairs_per_row",
    "replaced": "augmentation.context_negatives",
}
# Options that this version no longer has, with the value that switched each of them off.
RETIRED: Mapping[str, Any] = {
    "mixed_views": [],
    "patience": None,
    "accumulate": 1,
    "layer_decay": 1.0,
    "focal": 0.0,
    "label_smoothing": 0.0,
    "r_drop": 0.0,
    "kernel": 0.0,
    "embedder": None,
    "fgm": 0.0,
}
FROZEN = "frozen"  # true for what is now the method "kernel"


class RecordedRecipe(Recipe):
    """The recipe of a record.

    Attributes:
        retired: options that it set and this version no longer has; such a run cannot be trained again.
    """

    retired: dict[str, Any] = {}

    def options(self) -> dict[str, Any]:
        """All values by their bare names; retired options only where they were set."""
        values = super().options()
        return values | values.pop("retired")

    def recorded(self) -> dict[str, Any]:
        """As of a recipe; retired options only where they were set, so that other recipes compare as equal."""
        values = super().recorded()
        return values if self.retired else {key: value for key, value in values.items() if key != "retired"}


def recorded_recipe(values: Mapping[str, Any]) -> RecordedRecipe:
    """The recipe that a record holds, whatever version wrote it.

    Raises:
        pydantic.ValidationError: the values are no recipe.
    """
    current, retired = upgraded(values)
    return RecordedRecipe.model_validate({**current, "retired": retired} if retired else current)


def upgraded(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a recipe in their tables, and the retired options that were set; those of today stay as they are.

    What no version has ever had stays where it is, so that the check of the recipe names it.
    """
    if any(key in TABLES for key in values):
        return dict(values), {}
    current: dict[str, Any] = {}
    for key, value in values.items():
        if key in MOVED:
            table, option = MOVED[key].split(".")
            current.setdefault(table, {})[option] = value
        elif key not in RETIRED and key != FROZEN:
            current[key] = value
    if values.get("view") == HIERARCHICAL:
        current["model"] = {"method": "hierarchical", **current.get("model", {})}
    elif values.get(FROZEN):
        current["model"] = {"method": "kernel", **current.get("model", {})}
    retired = {key: value for key, value in values.items() if key in RETIRED and value != RETIRED[key]}
    return current, retired
