"""Which rows a model has seen in training, as far as records say: what it scores on those says too much of it.

CDConv is split in two ways, the authors' and the grouped one, over the same rows: 60 % of the grouped test rows lie in
the authors' training split. So a model of one split has seen rows of each split of the other. And what one model has
seen, those that start from it or learn from it have seen too: a run that is kept from a bot, or from a share of the
rows, starts from none that has read them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import UNNAMED
from contradiction.errors import InputError
from contradiction.labels import GROUPED
from contradiction.training import record
from contradiction.training.recipe_files import upgraded

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe

TRAIN = "train"
MERGED = ("soup", "ensemble")  # under which a request keeps the recipes of the members


@dataclass(frozen=True)
class Training:
    """What some model was trained on.

    Attributes:
        config: of the data set.
        data_name: what the data repo calls itself; None where that is not recorded.
        model: the name of the model; None for the one whose record this is from.
        bot: whose replies it read; None for both, and where a record is older than that choice.
        train_fraction: of those rows; 1 where a record is older than that choice.
        seed: which of the fractions of that size it was; None where that is not recorded.
    """

    config: str
    data_name: str | None = None
    model: str | None = None
    bot: str | None = None
    train_fraction: float = 1.0
    seed: int | None = None


def ancestors(models: Iterable[str]) -> list[dict[str, Any]]:
    """What models were trained on, folders or Hub ids, and what those were that they were made from.

    For the record of what is made of them: they may be gone when somebody asks.
    """
    found = (each for model in models for each in trainings(_record(model), _name(model)))
    return [asdict(each) for each in dict.fromkeys(found)]


def sources(recipe: "Recipe") -> list[str]:
    """The models that a recipe starts from or learns from, each once."""
    return list(dict.fromkeys(name for name, _ in _roles(recipe)))


def _roles(recipe: "Recipe") -> Iterator[tuple[str, str]]:
    """The same, each with what it is to the recipe."""
    roles = [
        (recipe.model.backbone, "backbone" if recipe.model.fine_tunes else "embedder"),
        *((each, "teacher") for each in recipe.distillation.teachers),
    ]
    yield from ((name, role) for name, role in roles if name)


def trainings(run: Mapping[str, Any], model: str | None = None) -> Iterator[Training]:
    """What the model of a record was trained on, and those that it was made from, itself first; each once.

    Of a soup or an ensemble the members count, which may have read different shares of the rows. A file of a record's
    name in somebody's repo may hold anything: what is no training is passed over.

    Args:
        run: the record.
        model: how the model is to be named.
    """
    asked, before = run.get("request"), run.get("ancestors")
    found: list[Any] = []
    if isinstance(asked, Mapping):
        recipes = (asked.get("recipe"), *(each for kind in MERGED for each in _items(asked.get(kind))))
        own = {"data_name": asked.get("data_name"), "model": model}
        found = [{**_data_options(recipe), **own} for recipe in recipes if isinstance(recipe, Mapping)]
    yield from dict.fromkeys(_training(each) for each in (*found, *_items(before)) if _names_config(each))


def _data_options(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Which rows a recorded recipe reads, whatever version wrote it."""
    values, _ = upgraded(recipe)
    data = values.get("data")
    return {**(data if isinstance(data, Mapping) else {}), "seed": values.get("seed")}


def _names_config(each: object) -> bool:
    return isinstance(each, Mapping) and isinstance(each.get("config"), str)


def _training(each: Mapping[str, Any]) -> Training:
    data_name, model, bot = (_words(each.get(key)) for key in ("data_name", "model", "bot"))
    fraction, seed = each.get("train_fraction", each.get("share")), each.get("seed")  # `share` in older records
    return Training(
        each["config"], data_name, model, bot, fraction if isinstance(fraction, int | float) else 1.0,
        seed if isinstance(seed, int) else None,
    )  # fmt: skip


def exposure(run: Mapping[str, Any], config: str, split: str, data_name: str | None = None) -> Training | None:
    """The training in which rows of a split were seen, by a recorded model or one it was made from; None where none.

    The validation split of the config trained on counts as unseen: checkpoints are chosen on it, and its figures are
    read as such.

    Args:
        run: the record.
        config: that is asked about, for instance ``4-class-grouped``; a checklist belongs to its test split.
        split: of that config.
        data_name: of the data repo; None where that is not known. Trainings on a data set of another name count not;
            what has none may be any.
    """
    for each in _of_these_rows(run, config, data_name):
        if split == TRAIN or other_split(each.config, config):
            return each
    return None


def why_seen(run: Mapping[str, Any], config: str, split: str, data_name: str | None = None) -> str | None:
    """The same in words that follow the model's name; None where nothing says that the rows were seen."""
    found = exposure(run, config, split, data_name)
    if not found:
        return None
    start = f"was made from {found.model}, which was" if found.model else "was"
    if other_split(found.config, config):
        return f"{start} trained on {found.config}, whose training split holds rows of the {split} split of {config}"
    return f"{start} trained on {found.config}, whose training rows these are"


def of_evaluation(kept: Mapping[str, Any]) -> str | None:
    """Why a kept evaluation is none of unseen rows; None where it is one. Older ones do not say it themselves."""
    if "seen" in kept:
        return kept["seen"] or None
    return why_seen(kept.get("run") or {}, str(kept.get("config")), str(kept.get("split")))


def other_split(one: str, other: str) -> bool:
    """Whether one of two configs is of the authors' split and the other of the grouped one."""
    return one.endswith(GROUPED) != other.endswith(GROUPED)


def check_sources(recipe: "Recipe", data_name: str) -> None:
    """Makes sure that no model that a recipe starts from or learns from has seen what the run is to be kept from.

    Args:
        recipe: of the run.
        data_name: of its data repo.

    Raises:
        InputError: one of them, or a model that it was made from, was trained on the other split of CDConv; or on the
            replies of a bot that the recipe leaves out; or on a larger or another share of the rows than the recipe; or
            the embedder was trained on any of them.
    """
    for name, kind in _roles(recipe):
        run = _record(name)
        if kind == "embedder":
            check_embedder(name, recipe.data.config, data_name)
        if found := exposure(run, recipe.data.config, "test", data_name):
            right = f"a {GROUPED} config" if recipe.data.config.endswith(GROUPED) else f"a config without {GROUPED}"
            raise InputError(
                f"{kind} {name}: {_made_from(found)}trained on {found.config}, whose training split holds test rows of "
                f"{recipe.data.config}; take one that was trained on {right}, or not on CDConv"
            )
        for each in _of_these_rows(run, recipe.data.config, data_name):
            if recipe.data.bot and each.bot != recipe.data.bot:
                raise InputError(
                    f"{kind} {name}: {_made_from(each)}trained on replies of {each.bot or 'both bots'}, and the recipe "
                    f"reads those of {recipe.data.bot} alone; take one that was trained on those, or not on CDConv"
                )
            if recipe.data.train_fraction < 1 and each.train_fraction > recipe.data.train_fraction:
                raise InputError(
                    f"{kind} {name}: {_made_from(each)}trained on {100 * each.train_fraction:g} % of the rows, and the "
                    f"recipe reads {100 * recipe.data.train_fraction:g} %; take one that was trained on no more, or "
                    "not on these rows"
                )
            if recipe.data.train_fraction < 1 and each.seed != recipe.seed:  # shares are nested for one seed alone
                raise InputError(
                    f"{kind} {name}: {_made_from(each)}trained on {100 * each.train_fraction:g} % of the rows, drawn "
                    f"with {'a seed that is not recorded' if each.seed is None else f'the seed {each.seed}'}, and the "
                    f"recipe's fraction with {recipe.seed}; take one of that seed, or one not trained on these rows"
                )


def check_embedder(name: str, config: str, data_name: str | None) -> None:
    """Raises InputError for an encoder that was trained on rows of a config: its embeddings may hold their labels."""
    if found := next(_of_these_rows(_record(name), config, data_name), None):
        raise InputError(
            f"embedder {name}: {_made_from(found)}trained on {found.config}, and knows the labels of these rows; take "
            "one that was not trained on CDConv"
        )


def _of_these_rows(run: Mapping[str, Any], config: str, data_name: str | None) -> Iterator[Training]:
    """The trainings on rows that a config is of, in either split."""
    for each in trainings(run):
        if not _differ(each.data_name, data_name) and _shares_rows(each.config, config):
            yield each


def _differ(one: str | None, other: str | None) -> bool:
    """Whether two names are known, and of two data sets."""
    return one != other and not {one, other} & {None, UNNAMED}


def _made_from(found: Training) -> str:
    return f"made from {found.model}, which was " if found.model else ""


def _record(model: str) -> dict[str, Any]:
    return record.of_model(model) or record.of_model(model, record.PRUNED)


def _name(model: str) -> str:
    return Path(model).resolve().name if Path(model).is_dir() else model


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _words(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _shares_rows(one: str, other: str) -> bool:
    return one.startswith("nli") == other.startswith("nli")  # the others are all CDConv
