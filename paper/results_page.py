"""The page of results, ``models/README.md``, with its paired comparisons of detectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.evaluation import results
from contradiction.evaluation.baselines import FEATURES
from contradiction.evaluation.figures import RESAMPLES
from contradiction.inputs.views import HIERARCHICAL
from contradiction.io.tables import Table, percent, render
from contradiction.labels import GROUPED, RELEASE, merged_config
from contradiction.paths import RESULTS
from contradiction.reports.tables import (
    COLLAPSED,
    backbone_name,
    baseline_table,
    contrast_results_table,
    run_table,
    score_table,
    training_log,
)
from contradiction.training import record
from contradiction.training.recipe import option_named
from contradiction.training.recipe_files import RETIRED, RecordedRecipe, recorded_recipe
from paper.paired_tests import (
    COMPARISON,
    MethodRuns,
    merged_run_of,
    paired_tests,
    run_of,
    single_run,
)
from paper.plots import LEADERBOARD, leaderboard

SPLITS = ("validation", "test")


def results_page(folder: str | Path = RESULTS) -> str:
    """The page of results, made from the saved evaluations.

    The page of the project's own results also says which model to use, and links to other pages of the repository.
    """
    evaluations = results.published(folder)
    detectors = [result for result in evaluations if result["kind"] == results.DETECTOR]
    configs = ("4-class", f"4-class{GROUPED}")
    return render(
        "results.md",
        templates=Path(__file__).parent,
        folder=Path(folder).resolve().name,
        of_project=Path(folder).resolve() == RESULTS.resolve(),
        plot=LEADERBOARD if leaderboard(evaluations) else None,
        tables=_score_tables(evaluations, detectors),
        classes=_class_tables(detectors),
        comparisons={config: tables for config in configs if (tables := comparison_tables(evaluations, config))},
        ablations={split: result for split in SPLITS if (result := ablation(detectors, split))},
        notes={result["name"]: result["run"]["note"] for result in detectors if (result.get("run") or {}).get("note")},
        runs=run_table(detectors),
        log=training_log(detectors),
        collapsed=COLLAPSED,
        baselines=baseline_table(folder),
        contrast=contrast_results_table(folder),
        reference=REFERENCE,
        resamples=RESAMPLES,
    )


def _score_tables(evaluations: list[dict[str, Any]], detectors: list[dict[str, Any]]) -> list[Any]:
    """A table of scores for each set of rows that a detector was evaluated on, with the baselines on these rows."""
    tables = []
    for group in _by_rows(detectors):
        baselines = [
            result for result in evaluations if result["kind"] == results.BASELINE and _rows(result) == _rows(group[0])
        ]
        tables.append(score_table(results.best_first([*group, *baselines]), _title(group[0])))
    return tables


def _class_tables(detectors: list[dict[str, Any]]) -> list[Table]:
    """A table for each set of rows: F1, precision and recall of each class, a row for each detector."""
    tables = []
    for group in _by_rows(detectors):
        classes = list(group[0]["metrics"]["per_class"])
        rows = []
        for result in results.best_first(group):
            scores = [result["metrics"]["per_class"][name] for name in classes]
            rows.append((result["name"], *(_f1_precision_recall(of_class) for of_class in scores)))
        tables.append(Table(_title(group[0]), ("detector", *classes), rows))
    return tables


def _f1_precision_recall(scores: Mapping[str, float]) -> str:
    return f"{percent(scores['f1'])} ({percent(scores['precision'])} / {percent(scores['recall'])})"


def _title(result: Mapping[str, Any]) -> str:
    data = result.get("data_name", RELEASE)
    other = "" if data == RELEASE else f" of {data}"
    return f"{result['config']}, {result['split']} split{other} (n = {result['metrics']['n']:,})"


def _rows(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """What identifies the rows of an evaluation."""
    return result["config"], result["split"], result["data"]


def _by_rows(detectors: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The evaluations grouped by their rows: test before validation, and official before grouped splits."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for result in detectors:
        groups.setdefault(_rows(result), []).append(result)
    return [groups[rows] for rows in sorted(groups, key=_order)]


def _order(rows: tuple[str, str, str]) -> tuple[bool, bool, str]:
    config, split, _ = rows
    return split != "test", config.endswith(GROUPED), config


NGRAMS = FEATURES["flatten"]
Methods = tuple[MethodRuns, MethodRuns]  # an evaluation on four classes, and merged to two


def comparison_tables(evaluations: Sequence[dict[str, Any]], config: str, bootstrap: int = RESAMPLES) -> list[Table]:
    """Two tables: the evaluations of a config compared with n-grams, and with the paper's method.

    Labels are those of the decision rule on the test split. The opponent among several hierarchical runs is the best on
    validation. Merged labels are compared with the better of two n-gram models: fitted to two classes, or fitted to
    four and merged.

    Returns:
        The tables; a table is missing where its opponent has no evaluation.
    """
    tests = results.best_first(result for result in evaluations if result["split"] == "test")
    compared = [result for result in tests if result["config"] == config and _reads_all(result)]
    ngrams = {result["config"]: result for result in tests if (result["name"], result["kind"]) == (NGRAMS, "baseline")}
    opponents = []
    if opponent := ngrams.get(config):
        two_classes = merged_run_of(opponent)
        fitted = ngrams.get(merged_config(config))
        if fitted and fitted["ids"] == opponent["ids"]:
            two_classes = max(two_classes, run_of(fitted), key=lambda run: run.metrics["macro_f1"])
        opponents.append((opponent, (single_run(opponent, run_of(opponent)), single_run(opponent, two_classes))))
    if opponent := _best_hierarchical(compared, evaluations):
        opponents.append((opponent, _methods(opponent, rule=True)))
    return [
        _table(methods, [result for result in compared if result is not opponent], bootstrap)
        for opponent, methods in opponents
    ]


def _reads_all(result: Mapping[str, Any]) -> bool:
    """Whether a baseline reads all of the conversation, or a detector was not trained on one bot alone."""
    if result["kind"] == results.BASELINE:
        return result.get("view") == "flatten"
    return not ((recipe := _recipe(result)) and recipe.data.bot)


def _best_hierarchical(
    compared: Sequence[dict[str, Any]], evaluations: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """The best hierarchical run on validation; None without any."""
    validation = {
        (result["name"], result["config"]): result["metrics"]["macro_f1"]
        for result in evaluations
        if result["split"] == "validation"
    }
    runs = [
        result
        for result in compared
        if (result["name"], result["config"]) in validation
        and (recipe := _recipe(result))
        and recipe.data.view == HIERARCHICAL
    ]
    return max(runs, key=lambda result: validation[result["name"], result["config"]], default=None)


def _recipe(result: Mapping[str, Any]) -> RecordedRecipe | None:
    request = (result.get("run") or {}).get("request")
    return record.recipe(request) if request else None


def _methods(result: Mapping[str, Any], *, rule: bool) -> Methods:
    return single_run(result, run_of(result, rule=rule)), single_run(result, merged_run_of(result, rule=rule))


def _table(opponent: Methods, evaluations: Sequence[Mapping[str, Any]], bootstrap: int) -> Table:
    ids = list(opponent[0].runs[0].ids)
    methods = [_methods(result, rule=True) for result in evaluations if result["ids"] == ids]
    cells = _comparisons(opponent, methods, bootstrap)
    body = [[method.name, *four, *two] for (method, _), (four, two) in zip((opponent, *methods), cells, strict=True)]
    return Table(opponent[0].name, ("detector", "macro-F1", *COMPARISON, "merged to 2-class", *COMPARISON), body)


def _comparisons(opponent: Methods, methods: Sequence[Methods], bootstrap: int) -> list[tuple[list[str], list[str]]]:
    """The cells of the opponent, and of each method compared with it, on four classes and on two.

    The cells are macro-F1 and the columns ``COMPARISON``.
    """
    four: list[list[str]] = []
    two: list[list[str]] = []
    for place, (task, cells) in enumerate((("4-class", four), ("2-class", two))):
        tests = paired_tests([(method[place], opponent[place]) for method in methods], task, bootstrap)
        compared = [[""] * len(COMPARISON), *(test.cells() for test in tests)]
        for method, of_test in zip((opponent, *methods), compared, strict=True):
            cells.append([percent(method[place].mean("macro_f1")), *of_test])
    return list(zip(four, two, strict=True))


ABLATION_CONFIG = "4-class"
REFERENCE = "e5-small-cdconv"  # the simplest: one run of flatten from the NLI stage, without teachers
AMBIGUOUS = ("weight", "temperature")  # shown with their table
START = ("backbone", "scratch")  # a recipe has one of the two
ABLATION_COMPARISON = ("difference", "95 % interval", "p, Holm")


@dataclass(frozen=True)
class Ablation:
    """The comparison of detectors with ``REFERENCE``.

    Attributes:
        table: a row for each detector, those with the fewest changes first.
        left_out: the names of detectors that were trained or evaluated on other rows, or have no record.
    """

    table: Table
    left_out: tuple[str, ...]


def ablation(
    evaluations: Sequence[Mapping[str, Any]], split: str = "validation", bootstrap: int = RESAMPLES
) -> Ablation | None:
    """Compares the 4-class evaluations on a split with the one of ``REFERENCE``.

    Differences are between most probable labels. A decision rule was fitted to the validation rows, so its scores there
    are too high; the same holds for an ensemble with calibrated members.

    Returns:
        The comparison; None where the reference or any other detector is missing.
    """
    results_of_split = [
        result for result in evaluations if (result["config"], result["split"]) == (ABLATION_CONFIG, split)
    ]
    first = next((result for result in results_of_split if result["name"] == REFERENCE and _fingerprints(result)), None)
    others = [result for result in results_of_split if result is not first]
    if not first or not others:
        return None
    same = [result for result in others if _fingerprints(result) == _fingerprints(first)]
    same.sort(key=lambda result: (len(changes(result, first)), -run_of(result).metrics["macro_f1"]))
    reference, *methods = (_methods(result, rule=False) for result in (first, *same))
    cells = _comparisons(reference, methods, bootstrap)
    body = [
        [
            result["name"],
            "the reference" if result is first else ", ".join(changes(result, first)) or "nothing",
            *_without_p(four),
            percent(result["metrics"]["macro_f1"]) if "argmax" in result else "",
            *_without_p(two),
            f"{result['run']['minutes']:.0f}",
        ]
        for result, (four, two) in zip((first, *same), cells, strict=True)
    ]
    header = (
        *("detector", "differs in", "macro-F1", *ABLATION_COMPARISON),
        *("with its rule", "merged to 2-class", *ABLATION_COMPARISON, "minutes"),
    )
    left_out = tuple(result["name"] for result in others if _fingerprints(result) != _fingerprints(first))
    return Ablation(Table(f"{ABLATION_CONFIG} {split} split", header, body, texts=2), left_out)


def changes(result: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """The recipe options of a run that differ from another run's, each with its value: ``epochs 5``."""
    recipes, others = (_recipes(evaluation["run"]["request"]) for evaluation in (result, reference))
    first, other = recipes[0], others[0]
    differences = [] if all(first[key] == other[key] for key in START) else [_start(first, other)]
    if len(recipes) != len(others):
        kind = "ensemble" if "ensemble" in result["run"]["request"] else "mean"
        differences.append(f"{kind} of {len(recipes)} runs" if len(recipes) > 1 else "a single run")
    for key in dict.fromkeys(key for recipe in (*recipes, *others) for key in recipe):
        if key == "nli_pairs_per_row" and not any(recipe["nli"] for recipe in recipes):
            continue  # without NLI pairs their number has no effect
        default = RETIRED.get(key)
        values, before = ([_shown(recipe.get(key, default)) for recipe in group] for group in (recipes, others))
        follows_from_view = key == "method" and "kernel" not in (*values, *before)
        if key not in (*START, "name", "base_model") and set(values) != set(before) and not follows_from_view:
            name = option_named(key) if key in AMBIGUOUS else key
            differences.append(f"{name} {' / '.join(dict.fromkeys(values))}")
    return differences


def _recipes(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options of a run, or of the members of a soup or an ensemble."""
    recipes = request.get("ensemble") or request.get("soup") or [request["recipe"]]
    return [recorded_recipe(recipe).options() for recipe in recipes]


def _start(recipe: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    name = backbone_name(recipe["backbone"])
    if not name and not recipe["scratch"]:
        return "no encoder"
    if not name:
        return f"from scratch ({', '.join(f'{key} {size}' for key, size in recipe['scratch'].items())})"
    if name != backbone_name(other["backbone"]):
        return f"backbone {name}"
    # Folders with the same name differ by the digest of their weights, which early records lack.
    _, _, digest = recipe["backbone"].partition("@")
    return f"backbone {name} ({f'weights {digest}' if digest else 'which weights is not recorded'})"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(map(_shown, value)) or "none"
    if isinstance(value, str):
        return value.partition("@")[0]  # the name of a folder without its digest
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _fingerprints(result: Mapping[str, Any]) -> tuple[str, str] | None:
    """The fingerprints of the evaluated rows and of the training rows; None without the record of a training."""
    request = (result.get("run") or {}).get("request")
    return (result["data"], request["data"]) if request else None


def _without_p(cells: Sequence[str]) -> list[str]:
    """The cells of a comparison with the corrected p-value alone."""
    *others, _, adjusted = cells
    return [*others, adjusted]
