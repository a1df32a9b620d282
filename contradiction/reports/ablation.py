"""What each choice of a recipe brings: every kept detector beside a reference, on the rows of one split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contradiction.evaluation.paired_tests import Contrast, contrasts, line_of, merged_run_of, run_of
from contradiction.evaluation.results import RESAMPLES, backbone_name
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.training import record
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_history import RETIRED

CONFIG = "4-class"
REFERENCE = "e5-small-cdconv"  # the plainest: one run of flatten from the NLI stage, by labels alone
START = ("backbone", "scratch")  # of which a recipe has one


@dataclass(frozen=True)
class Ablation:
    """The detectors beside the reference.

    Attributes:
        reference: its name.
        table: a row a detector, those with the fewest changes first.
        left_out: names of detectors that were trained or evaluated on other rows, or have no record.
    """

    reference: str
    table: Table
    left_out: tuple[str, ...]


def ablation(
    kept: Sequence[Mapping[str, Any]],
    split: str = "validation",
    reference: str = REFERENCE,
    bootstrap: int = RESAMPLES,
) -> Ablation | None:
    """Compares the kept 4-class evaluations on a split with that of the reference; None where there is no such pair.

    Differences are between most probable labels: a decision rule is fitted on the validation rows, and would count what
    it has learnt of them. (In an ensemble whose members are calibrated, that is fitted on them too.)

    Args:
        kept: evaluations.
        split: of the official data.
        reference: the name of the detector that all others are held against.
        bootstrap: resamples of the paired tests.
    """
    found = [each for each in kept if (each["config"], each["split"]) == (CONFIG, split)]
    first = next((each for each in found if each["name"] == reference and each.get("run")), None)
    others = [each for each in found if each is not first]
    if not first or not others:
        return None
    same = [each for each in others if _rows(each) == _rows(first)]
    same.sort(key=lambda each: (len(changes(each, first)), -run_of(each).metrics["macro_f1"]))
    fine, coarse = (
        contrasts([(line_of(each, read(each)), line_of(first, read(first))) for each in same], task, bootstrap)
        for read, task in ((run_of, CONFIG), (merged_run_of, "2-class"))
    )
    body = [_row(first, "the reference", None, None)]
    body += [
        _row(each, ", ".join(changes(each, first)) or "nothing", one, two)
        for each, one, two in zip(same, fine, coarse, strict=True)
    ]
    against = ("difference", "95 % interval", "p, Holm")
    header = ("detector", "differs in", "macro-F1", *against, "with its rule", "merged to 2-class", *against, "minutes")
    left_out = tuple(each["name"] for each in others if _rows(each) != _rows(first))
    return Ablation(reference, Table(f"{CONFIG} {split} split", header, body, texts=2), left_out)


def changes(kept: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """What the recipe of one run has different from another's, as its key and value: ``epochs 5``."""
    ones, others = (_recipes(each["run"]["request"]) for each in (kept, reference))
    one, other = ones[0], others[0]
    found = [] if all(one[key] == other[key] for key in START) else [_start(one, other)]
    if len(ones) != len(others):
        kind = "ensemble" if "ensemble" in kept["run"]["request"] else "mean"
        found.append(f"{kind} of {len(ones)} runs" if len(ones) > 1 else "a single run")
    for key in (*Recipe.model_fields, *RETIRED):
        if key == "nli_pairs" and not any(recipe["nli"] for recipe in ones):
            continue  # without pairs to read it means nothing
        off = RETIRED.get(key)
        values, before = ([_words(recipe.get(key, off)) for recipe in recipes] for recipes in (ones, others))
        if key not in (*START, "name") and set(values) != set(before):
            found.append(f"{key} {' / '.join(dict.fromkeys(values))}")
    return found


def _recipes(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The recipe that a run was asked for, or those of the runs that a soup or an ensemble is made of."""
    several = request.get("ensemble") or request.get("soup") or [request["recipe"]]
    return [record.recipe({"recipe": each}) for each in several]


def _start(recipe: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    name = backbone_name(recipe)
    if not name:
        return f"from scratch ({', '.join(f'{key} {size}' for key, size in recipe['scratch'].items())})"
    if name != backbone_name(other):
        return f"backbone {name}"
    # Folders of one name: what tells them apart is the digest of their weights, which early records do not hold.
    _, _, digest = recipe["backbone"].partition("@")
    return f"backbone {name} ({f'weights {digest}' if digest else 'which weights is not recorded'})"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(map(_words, value)) or "none"
    if isinstance(value, str):
        return value.partition("@")[0]  # of a folder the name; the digest of what is in it is in the record
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _rows(kept: Mapping[str, Any]) -> tuple[str, str] | None:
    """The fingerprints of the rows that a detector was evaluated on, and trained on; None without a record."""
    return (kept["data"], kept["run"]["request"]["data"]) if kept.get("run") else None


def _row(kept: Mapping[str, Any], differs: str, fine: Contrast | None, coarse: Contrast | None) -> list[str]:
    return [
        kept["name"],
        differs,
        percent(run_of(kept).metrics["macro_f1"]),
        *_cells(fine),
        percent(kept["metrics"]["macro_f1"]) if "plain" in kept else "",
        percent(merged_run_of(kept).metrics["macro_f1"]),
        *_cells(coarse),
        f"{kept['run']['minutes']:.0f}",
    ]


def _cells(contrast: Contrast | None) -> list[str]:
    if not contrast:
        return ["", "", ""]
    return [signed(contrast.difference), signed_interval(contrast.interval), f"{contrast.adjusted:.3f}"]
