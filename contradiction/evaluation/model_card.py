"""The card of a model folder, from the record of its run and its saved evaluations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction import cdconv
from contradiction.data.splits import UNDETERMINED
from contradiction.decision import Rule
from contradiction.evaluation import card_use, cascade_card, results
from contradiction.evaluation.figures import (
    FIGURES,
    are_contradictions,
    contradiction_probabilities,
    has_outcomes,
    rule_of,
    settings_table,
)
from contradiction.evaluation.licences import credits_sentence, forbids_commerce, languages_of, licence_of, linked
from contradiction.evaluation.tables import class_table, figure_text, score_table
from contradiction.inputs.views import HYPOTHESIS_ONLY
from contradiction.io.tables import percent, render
from contradiction.labels import LABELS, RELEASE, RELEASE_ID, STAGES, task_of
from contradiction.methods.composite import CascadeClassifier
from contradiction.methods.decoder import DecoderClassifier
from contradiction.methods.loading import load_rule, method_of
from contradiction.training import record
from contradiction.training.recipe import Recipe, is_recorded_folder

if TYPE_CHECKING:
    from huggingface_hub import ModelCard

SENTENCES = {
    "2-class": "Detects replies of a chatbot that contradict themselves or the chat, or take the user's role.",
    "4-class": "Detects replies of a chatbot that contradict themselves or the chat, or take the user's role, by kind.",
    "persona": "Classifies what a chatbot's contradiction is about.",
    "nli": "Says whether a premise entails a hypothesis. The model is a backbone to fine-tune on CDConv.",
    "response": "Says how well a reply follows from a chat, to choose among several.",
    "verifiable": "Says whether a reply states a fact that can be verified.",
}
LANGUAGES = {"zh": "Chinese", "en": "English"}
# The metadata names the library that loads the folder, because the Hub shows code for it. The Hub does not know this
# one, and shows none.
LIBRARY = "cdconv"
BASELINE_SENTENCE = "Guesses from the hypothesis alone whether a premise entails it: a baseline, and not a backbone."
STAGE_SENTENCE = "Tells {} from all other replies: one stage of a hierarchical detector."


def model_card(
    folder: str | Path, evaluations: Sequence[Mapping[str, Any]] = (), *, name: str | None = None
) -> "ModelCard":
    """The card of a trained model or a cascade; every score is from its record or its evaluations.

    Args:
        folder: the model folder.
        evaluations: its saved evaluations.
        name: the name of the model; by default that of the folder.

    Raises:
        InputError: the folder has no record of a finished run, or of a measured cascade.
    """
    from huggingface_hub import ModelCard, ModelCardData

    folder = Path(folder)
    name = name or folder.resolve().name
    if (folder / CascadeClassifier.MARKER).is_file():
        run = record.of_cascade(folder)
        template, values = "cascade_card.md", cascade_card.section(folder, run)
    else:
        run = record.finished(folder)
        template, values = "model_card.md", _of_run(folder, run, name)
    method, rule = method_of(folder), load_rule(folder)
    languages, licence, bases = values["languages"], values["licence"], values["bases"]
    shown = [each for each in evaluations if _decides_alike(rule_of(each), rule.without_curve())]
    on_test = [each for each in shown if (each["config"], each["split"]) == (values["config"], "test")]
    body = render(
        template,
        **values | _decision(run, rule, shown) | _scores(shown),
        name=name,
        language=" and ".join(LANGUAGES.get(code, code) for code in languages if code != UNDETERMINED),
        commercial=not forbids_commerce(licence),
        licence_link=linked(licence),
        headline=_headline(on_test[0]) if on_test else None,
        note=run.get("note"),
        citation=cdconv.CITATION,
        task_sentence=values.get("sentence") or SENTENCES[values["task"]],
        rule_file=method.MARKER,
        earlier=len(shown) < len(evaluations),
        calibration_error=_calibration_error(on_test[0]) if on_test else None,
    )
    front = ModelCardData(
        model_name=name,
        language=languages if len(languages) > 1 else languages[0],
        license=licence,
        library_name="transformers" if method.TRANSFORMERS else LIBRARY,
        pipeline_tag="text-classification",
        base_model=bases if len(bases) > 1 else next(iter(bases), None),
        base_model_relation="adapter" if method is DecoderClassifier else None,  # the Hub infers the others
        datasets=[RELEASE_ID] if values["data_name"] == RELEASE else None,
        metrics=[figure.hub_type for figure in FIGURES],
        tags=["contradiction-detection", "dialogue"],
        eval_results=[entry for result in shown for entry in _eval_results(result)] or None,
        widget=values.get("widget") or None,
    )
    return ModelCard(f"---\n{front.to_yaml()}\n---\n\n{body}")


def write_cards(folder: str | Path) -> None:
    """Writes the card of a trained model and of each of its stages, unless it exists."""
    folder = Path(folder)
    for place in (folder, *(folder / stage for stage in record.read(folder).get("stages", {}))):
        if not (place / "README.md").exists():
            model_card(place).save(place / "README.md")


# The functions below return parts of the template's input.


def _of_run(folder: Path, run: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What only the card of a trained model says, not that of a cascade."""
    recipes = [record.recipe({"recipe": each}) for each in run["request"].get("ensemble", [run["request"]["recipe"]])]
    recipe, runs = recipes[0], [run, *record.members(run)]
    bases = list(dict.fromkeys(filter(None, map(record.base_model_of_run, runs))))
    trained_on = dict.fromkeys(corpus for member in runs for corpus in member.get("corpora") or [])
    languages, decoder = languages_of(run), recipe.model.method == "decoder"
    labels = STAGES[recipe.data.target] if recipe.data.target else LABELS[task_of(recipe.data.config)]
    return {
        "recipe": recipe,
        "config": recipe.data.config,
        "data_name": run["request"]["data_name"],
        "languages": languages,
        "licence": licence_of(run),
        "bases": bases,
        "origin": _origin(recipe, next(iter(bases), None)),
        "made_of": credits_sentence(bases, list(trained_on), "language model" if decoder else "encoder"),
        "sentence": _task_sentence(recipe),
        "labels": labels,
        **card_use.section(folder, name, run, recipes, card_use.example_in(languages)),
        **_training(run, recipe),
        "teachers": _teachers,
    }


def _task_sentence(recipe: Recipe) -> str:
    if recipe.data.target:
        return STAGE_SENTENCE.format(recipe.data.target)
    return BASELINE_SENTENCE if recipe.data.view == HYPOTHESIS_ONLY else SENTENCES[task_of(recipe.data.config)]


def _headline(result: Mapping[str, Any]) -> str:
    """The macro-F1 on the test split of the model's own config, with its interval."""
    place = f"the test split of {result['data_name']}" if result.get("data_name") else "the test split"
    by_rule, *argmax = (
        f"{figure_text(each['metrics'], FIGURES[0].key)} %" for each in (result, result.get("argmax")) if each
    )
    how = f" with the [decision rule](#decision-rule), {argmax[0]} by the most probable label" if argmax else ""
    return f"Macro-F1 on {place}, `{result['config']}`: {by_rule}{how}."


def _decides_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rules decide rows of the data set alike: no row is the first reply of a chat, an opening."""
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {"opening"})


def _decision(run: Mapping[str, Any], rule: Rule, evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The decision rule, and the parts of the evaluations that depend on it."""
    # 2-class and 4-class evaluations of a split have the same table of settings.
    by_rows = {tuple(result["ids"]): result for result in reversed(evaluations) if has_outcomes(result, rule)}
    return {
        "rule": rule if rule != Rule() else None,
        "kept": run.get(record.RULE_KEPT),
        "adapted": bool(run.get(record.CALIBRATED_ON)),
        "has_argmax": any("argmax" in result for result in evaluations),
        "settings": [settings_table(result, rule) for result in by_rows.values()],
    }


def _scores(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    baselines = [
        baseline
        for result in evaluations
        for baseline in results.baselines(result["config"], result["split"], data=result["data"])
    ]
    return {
        "scores": score_table([*evaluations, *baselines], "", with_split=True) if evaluations else None,
        "baselines": bool(baselines),
        "two_classes": any("two_class" in result["metrics"] for result in evaluations),
        "classes": [class_table(result) for result in evaluations],
    }


def _training(run: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The training, its cost, and the command that repeats it."""
    members = record.members(run)
    numbered: dict[str, Any] = {f"run {number}": member for number, member in enumerate(members, start=1)}
    parts = run.get("stages", {}) or numbered or {recipe.data.view: run}
    return {
        "chosen": [
            (name, percent(part["best_macro_f1"]), part["best_epoch"])
            for name, part in parts.items()
            if "best_epoch" in part  # a soup has no epochs
        ],
        "soup": [record.recipe(member["request"]) for member in run.get("soup", [])],
        "taught": any(record.recipe(part["request"]).distillation.has_teachers for part in (run, *members)),
        "parameters": run["parameters"],
        "minutes": f"{run['minutes']:.0f} minutes" if run["minutes"] >= 2 else f"{60 * run['minutes']:.0f} seconds",
        "hardware": run["hardware"],
        "again": _again(recipe, members),
    }


def _teachers(recipe: Recipe) -> list[str]:
    """The teachers with their weights; empty without teachers."""
    names = [teacher.partition("@")[0] for teacher in recipe.distillation.teachers]
    ngrams = recipe.distillation.ngram_teacher_weight
    detectors = f"{len(names)} trained detector{'s' if len(names) > 1 else ''}: {', '.join(names)}"
    parts = [
        (1 - ngrams if names else 0.0, f"{'the mean of ' if len(names) > 1 else ''}{detectors}"),
        (ngrams, "a cross-fitted linear model of character n-grams"),
    ]
    weighted = [(weight, teacher) for weight, teacher in parts if weight]
    return [teacher if len(weighted) == 1 else f"{teacher} ({100 * weight:g} %)" for weight, teacher in weighted]


def _calibration_error(evaluation: Mapping[str, Any]) -> float | None:
    """The expected calibration error of the probability of a contradiction; None without probabilities."""
    from evaluate_metric.evaluate_metric import calibration_error

    if "probabilities" not in evaluation:
        return None
    task = task_of(evaluation["config"])
    probabilities = np.clip(contradiction_probabilities(task, evaluation["probabilities"]), 0, 1)
    return calibration_error(are_contradictions(task, evaluation["references"]), probabilities)


def _eval_results(evaluation: Mapping[str, Any]) -> list[Any]:
    from huggingface_hub import EvalResult

    # The metadata names a data set of the Hub, so it has only scores on CDConv.
    if evaluation.get("data_name") != RELEASE:
        return []
    metrics = evaluation["metrics"]
    # A pipeline takes the most probable label instead.
    rule = ", with the decision rule" if evaluation.get("rule") else ""
    return [
        EvalResult(
            task_type="text-classification",
            dataset_type=RELEASE_ID,
            dataset_name=RELEASE,
            dataset_config=evaluation["config"],
            dataset_split=evaluation["split"],
            metric_type=figure.hub_type,
            metric_name=figure.title[0].upper() + figure.title[1:] + rule,
            metric_value=round(metrics[figure.key], 4),
        )
        for figure in FIGURES
        if figure.key in metrics
    ]


def _origin(recipe: Recipe, base: str | None) -> str:
    if not recipe.model.backbone:
        return "from random weights"
    last = f"fine-tuned from {Path(recipe.model.backbone).name.partition('@')[0]}"
    return f"{last}, which was made from {base}" if base and base != recipe.model.backbone else last


def _again(recipe: Recipe, members: Sequence[Any]) -> str | None:
    """The command that repeats the run; None for several runs."""
    if members:
        return None
    data = " --data nli" if recipe.data.config.startswith("nli") else ""
    backbone = " --backbone FOLDER" if is_recorded_folder(recipe.model.backbone) else ""
    teachers = recipe.distillation.teachers
    teachers = teachers if any(map(is_recorded_folder, teachers)) else []
    pairs = " --nli FOLDER" if is_recorded_folder(recipe.augmentation.nli) else ""
    return f"cdconv train run.json{data}{backbone}" + " --teacher FOLDER" * len(teachers) + pairs
