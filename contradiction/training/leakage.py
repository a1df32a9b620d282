"""Data leakage: the rows that a model was trained on, according to records. Its scores on those rows are too high.

The official and the grouped split of CDConv divide the same rows: 60 % of the grouped test rows are training rows of
the official split. So a model that was trained on one split has seen rows of every split of the other. Leakage is
inherited from backbones and teachers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import UNNAMED
from contradiction.errors import InputError
from contradiction.io.hub import model_name
from contradiction.labels import GROUPED, has_two_texts
from contradiction.training import record

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe

TRAIN = "train"


@dataclass(frozen=True)
class Training:
    """The training data of a model.

    Attributes:
        config: the config of the data set.
        data_name: the name in the card of the data repo; None where it is not recorded.
        model: the name of the model; None for the model of the record itself.
        crossed: whether the training split of the crossed chats was read too.
    """

    config: str
    data_name: str | None = None
    model: str | None = None
    crossed: bool = False


def ancestors(models: Iterable[str]) -> list[dict[str, Any]]:
    """The training data of models (folders or Hub ids) and of all models that they were made from.

    The record of a new model stores it, because the models may be deleted later. Each training is a dictionary of its
    attributes.
    """
    found = (training for model in models for training in trainings(record.of_model(model), model_name(model)))
    return [asdict(training) for training in dict.fromkeys(found)]


def sources(recipe: "Recipe") -> list[str]:
    """The backbone and the teachers of a recipe, each once."""
    return list(dict.fromkeys(name for name, _ in _roles(recipe)))


def _roles(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    """The backbone and the teachers of a recipe, each with its role."""
    if recipe.model.backbone:
        yield recipe.model.backbone, "backbone"
    yield from ((teacher, "teacher") for teacher in recipe.distillation.teachers)


def trainings(run: Mapping[str, Any], model: str | None = None) -> Iterator[Training]:
    """The training data of the model of a record, then of the models that it was made from; each once.

    For a soup or an ensemble, it is the training data of the members. A record from the Hub may hold anything: entries
    without a config are skipped, and other invalid values count as not recorded.
    """
    request, entries = run.get("request"), _items(run.get("ancestors"))
    if isinstance(request, Mapping):
        recipes = (request.get("recipe"), *(recipe for kind in record.MERGED for recipe in _items(request.get(kind))))
        own = {"data_name": request.get("data_name"), "model": model}
        options = ({**record.options_of(each, "data"), **record.options_of(each, "augmentation")} for each in recipes)
        entries = [*({**each, **own} for each in options), *entries]
    kinds = Training.__annotations__
    known = [
        {name: entry[name] for name, kind in kinds.items() if name in entry and isinstance(entry[name], kind)}
        for entry in entries
        if isinstance(entry, Mapping)
    ]
    yield from dict.fromkeys(Training(**values) for values in known if "config" in values)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def exposure(run: Mapping[str, Any], config: str, split: str, data_name: str | None = None) -> Training | None:
    """The training data that contains rows of a split, of a recorded model or of one that it was made from; else None.

    The validation split of the model's own config counts as unseen: checkpoints are chosen on it, and readers know it.
    A checklist belongs to its test split. ``data_name`` is the name of the data repo, or None. Training data with
    another name does not count; training data without a name may be the same.
    """
    for training in trainings(run):
        known_names = {training.data_name, data_name} - {None, UNNAMED}
        # All configs of single chats are CDConv.
        same_rows = len(known_names) < 2 and has_two_texts(training.config) == has_two_texts(config)
        if same_rows and (split == TRAIN or other_split(training.config, config)):
            return training
    return None


def describe_leakage(run: Mapping[str, Any], config: str, split: str, data_name: str | None = None) -> str | None:
    """The leakage in words that follow the name of the model; None where no record shows any, see :func:`exposure`."""
    leak = exposure(run, config, split, data_name)
    if not leak:
        return None
    origin = f"was {_made_from(leak)}trained on {leak.config}, whose training"
    other = other_split(leak.config, config)
    return f"{origin} split holds rows of the {split} split of {config}" if other else f"{origin} rows these are"


def describe_crossed(run: Mapping[str, Any], split: str) -> str | None:
    """The leakage of a split of the crossed chats, in words that follow the name of the model; None without any."""
    leak = next((training for training in trainings(run) if training.crossed), None)
    if not leak or split != TRAIN:
        return None
    return f"was {_made_from(leak)}trained on the training split of the crossed chats"


def describe_calibration(run: Mapping[str, Any], data_name: str | None) -> str | None:
    """The leakage of labelled chats through a decision rule, in words that follow the name of the model; else None."""
    return "has a decision rule that was fitted to these chats" if data_name in calibrations(run) else None


def describe_chats(run: Mapping[str, Any], data_name: str, split: str) -> str | None:
    """The leakage of whole labelled chats, in words that follow the name of the model; None where no record shows any.

    ``data_name`` is that of :func:`contradiction.data.labelled.name_of_file`, and ``split`` that of their data repo.
    """
    leak = next((training for training in trainings(run) if training.data_name == data_name), None)
    if leak and split not in ("validation", "test"):
        part = "" if split == TRAIN else "a part of "
        return f"was {_made_from(leak)}trained on {part}these chats; --split test leaves them out"
    return describe_calibration(run, data_name)


def calibrations(run: Mapping[str, Any]) -> list[str]:
    """The names of the labelled chats that the decision rules of a model were fitted to; each once."""
    own = [*_items(run.get(record.CALIBRATED_ON)), *_items(run.get("calibrated_parts"))]
    # The rule of a soup is chosen anew, and the rules of its members are not used.
    of_members = [name for member in _items(run.get("ensemble")) for name in calibrations(member)]
    return list(dict.fromkeys(name for name in [*own, *of_members] if isinstance(name, str)))


def other_split(config: str, other_config: str) -> bool:
    """Whether one of two configs has the official split and the other the grouped one."""
    return config.endswith(GROUPED) != other_config.endswith(GROUPED)


def check_sources(recipe: "Recipe", data_name: str, data: str | None = None) -> None:
    """Checks that the backbone and the teachers of a recipe were not trained on its test rows.

    Raises:
        InputError: one of them, or a model that it was made from, was trained on the other split of CDConv; or a
            teacher was trained on rows whose fingerprint is not ``data``.
    """
    config = recipe.data.config
    for name, kind in _roles(recipe):
        run = record.of_model(name)
        if leak := exposure(run, config, "test", data_name):
            raise InputError(
                f"{kind} {name}: {_made_from(leak)}trained on {leak.config}, whose training split holds test rows of "
                f"{config}; take one that was trained on the same split, or not on CDConv"
            )
        if kind == "teacher" and data and run.get("request", {}).get("data", data) != data:
            raise InputError(f"teacher {name}: trained on other rows than the student's; train it on the same data")


def _made_from(training: Training) -> str:
    return f"made from {training.model}, which was " if training.model else ""
