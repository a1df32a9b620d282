"""Where a backbone is from: the Hub id that a model card names as its base."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.training import record
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_history import upgraded


def of_recipe(recipe: Recipe) -> str | None:
    """The Hub id of a recipe's backbone, or of what that is made from; None where nothing says so.

    A folder that training or pruning wrote has a record, which says what it was made from. What the recipe says counts
    for other folders only: it cannot know from what the one that it names was made in the end.
    """
    if not recipe.model.backbone:
        return None
    folder = Path(recipe.model.backbone)
    if not folder.is_dir():
        return _hub_id(recipe.model.backbone)
    pruned = record.of_model(folder, record.PRUNED).get("backbone")
    return of_run(record.read(folder)) or _hub_id(pruned) or recipe.model.base_model


def of_run(run: Mapping[str, Any]) -> str | None:
    """The same of a recorded run."""
    values, _ = upgraded(run.get("request", {}).get("recipe", {}))
    return run.get("base_model") or _hub_id(values.get("model", {}).get("backbone"))


def _hub_id(backbone: str | None) -> str | None:
    # The records of folders hold a name and a digest, older ones a path.
    if backbone and backbone.count("/") == 1 and not backbone.startswith(".") and not Path(backbone).exists():
        return backbone
    return None
