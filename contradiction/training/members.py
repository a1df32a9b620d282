"""What a soup and an ensemble have in common: what they ask of the detectors, and how their folder is finished."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.errors import InputError
from contradiction.io.files import new_folder
from contradiction.training import record
from contradiction.training.finish import complete

if TYPE_CHECKING:
    from datasets import Dataset


@contextmanager
def merged(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path, out: Path) -> Iterator[Path]:
    """A folder for weights and record of what is made of detectors; it then gets its decision rule.

    Args:
        models: folders of the detectors.
        runs: their records.
        data: the data repo, said to be theirs.
        out: where the folder comes to stand once it is whole.

    Raises:
        InputError: they were trained on different data, or on the replies of different bots, or ``data`` is not theirs,
            or ``out`` is taken.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    validation = _own_validation(models, runs, data)
    with new_folder(out) as folder:
        yield folder
        complete(folder, validation)


def _own_validation(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path) -> "Dataset":
    """The validation split of the data, or of the bot's replies, that all of them were trained on."""
    rows = runs[0]["request"]["data"]
    recipes = [record.recipe(run["request"]) for run in runs]
    config, bot = recipes[0].data.config, recipes[0].data.bot
    for model, run, recipe in zip(models, runs, recipes, strict=True):
        if run["request"]["data"] != rows:
            raise InputError(f"{model} and {models[0]}: trained on different data")
        if recipe.data.bot != bot:
            raise InputError(f"{model} and {models[0]}: trained on the replies of different bots")
    train, validation = (load_split(data, config, split) for split in ("train", "validation"))
    if fingerprint(train, validation) != rows:
        raise InputError(f"{data}: not the data that {models[0]} was trained on")
    return of_bot(validation, bot)
