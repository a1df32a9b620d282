"""What a soup and an ensemble ask alike of the detectors that they are made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import fingerprint, load_split
from contradiction.errors import InputError
from contradiction.training.sampling import of_bot

if TYPE_CHECKING:
    from datasets import Dataset


def own_validation(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path, out: Path) -> "Dataset":
    """The validation split of the data, or of the bot's replies, that all of them were trained on.

    Args:
        models: their folders.
        runs: their records.
        data: the data repo, said to be theirs.
        out: the folder that is to be made of them.

    Raises:
        InputError: they were trained on different data, or on the replies of different bots, or ``data`` is not theirs,
            or ``out`` is taken.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    asked = runs[0]["request"]
    for model, run in zip(models, runs, strict=True):
        if run["request"]["data"] != asked["data"]:
            raise InputError(f"{model} and {models[0]}: trained on different data")
        if run["request"]["recipe"].get("bot") != asked["recipe"].get("bot"):
            raise InputError(f"{model} and {models[0]}: trained on the replies of different bots")
    train, validation = (load_split(data, asked["recipe"]["config"], split) for split in ("train", "validation"))
    if fingerprint(train, validation) != asked["data"]:
        raise InputError(f"{data}: not the data that {models[0]} was trained on")
    return of_bot(validation, asked["recipe"].get("bot"))
