"""The card of a model folder, made from the record of its run and its saved evaluations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction import cdconv
from contradiction.data.splits import CHINESE, UNDETERMINED
from contradiction.decision import Rule
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.figures import FIGURES, are_contradictions, contradiction_probabilities
from contradiction.evaluation.thresholds import missing_reason, rule_of
from contradiction.evaluation.thresholds import table as settings_table
from contradiction.inputs.views import CONVERSATION, HYPOTHESIS_ONLY, VIEWS
from contradiction.io.files import RECORD
from contradiction.io.tables import Table, percent, render
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, RELEASE, STAGES, task_of
from contradiction.methods.loading import load_rule, method_of
from contradiction.reports import sources
from contradiction.reports.card_example import (
    CHINESE_EXAMPLE,
    ENGLISH_EXAMPLE,
    Answer,
    chat_of,
    consistent,
    detector_verdict,
    pipeline_answers,
    separator_of,
    text_pair,
)
from contradiction.reports.tables import backbone_name, class_table, figure_text, score_table
from contradiction.training import record
from contradiction.training.recipe import Recipe, is_recorded_folder

if TYPE_CHECKING:
    from huggingface_hub import ModelCard, ModelCardData

SENTENCES = {
    "2-class": "Detects replies of a chatbot that contradict themselves or the chat, or take the user's role.",
    "4-class": "Detects replies of a chatbot that contradict themselves or the chat, or take the user's role, by kind.",
    "persona": "Classifies what a chatbot's contradiction is about.",
    "nli": "Says whether a premise entails a hypothesis. The model is a backbone to fine-tune on CDConv.",
    "response": "Says how well a reply follows from a chat, to choose among several.",
    "verifiable": "Says whether a reply states a fact that can be verified.",
}
LANGUAGES = {"zh": "Chinese", "en": "English"}
RIGHT = (HISTORY, CONTRADICTION)  # the right verdicts on the example
FINISHED = ("request", "minutes", "parameters", "hardware")  # the keys of every record of a finished run
BASELINE_SENTENCE = "Guesses from the hypothesis alone whether a premise entails it: a baseline, and not a backbone."
STAGE_SENTENCE = "Tells {} from all other replies: one stage of a hierarchical detector."


def model_card(folder: str | Path, evaluations: Sequence[Mapping[str, Any]] = ()) -> "ModelCard":
    """The card of a trained model; every score is from its record or its evaluations.

    Raises:
        InputError: the folder has no record of a finished run.

    Two optional entries of the record are added by hand: ``note``, a remark on the run for readers of the scores, and
    ``corpora``, earlier training data of its backbone, by the titles of corpora.
    """
    from huggingface_hub import ModelCard

    folder = Path(folder)
    run = record.read(folder)
    if not run:
        raise InputError(f"{folder}: no {RECORD}; a card is made from the record that `cdconv train` writes")
    for key in FINISHED:
        if key not in run:
            raise InputError(f"{folder / RECORD}: has no {key!r}; it is not the record of a finished run")
    name = folder.resolve().name
    recipe, data_name = _leading(run), run["request"]["data_name"]
    runs = [run, *record.members(run)]
    bases = list(dict.fromkeys(filter(None, map(record.base_model_of_run, runs))))
    corpora = dict.fromkeys(corpus for member in runs for corpus in member.get("corpora") or [])
    languages, licence = sources.languages_of(run), sources.licence_of(run)
    use = _use(folder, name, run, recipe, CHINESE_EXAMPLE if CHINESE in languages else ENGLISH_EXAMPLE)
    body = render(
        "model_card.md",
        name=name,
        recipe=recipe,
        data_name=data_name,
        languages=languages,
        language=" and ".join(LANGUAGES.get(code, code) for code in languages if code != UNDETERMINED),
        licence=sources.title_of(licence) if sources.forbids_commerce(licence) else None,
        headline=_headline(evaluations, recipe.data.config),
        note=run.get("note"),
        origin=_origin(recipe, next(iter(bases), None)),
        made_of=sources.credits_sentence(bases, list(corpora)),
        citation=cdconv.CITATION,
        **_what_it_tells(recipe),
        **use,
        rule_file=method_of(folder).MARKER,
        **_decision(run, load_rule(folder), evaluations),
        **_figures(evaluations, recipe.data.config),
        **_training(run, recipe),
        teachers=_teachers,
    )
    front = _front_matter(name, run, bases, evaluations, use["widget"])
    return ModelCard(f"---\n{front.to_yaml()}\n---\n\n{body}")


def write_cards(folder: str | Path) -> None:
    """Writes the card of a trained model and of each of its stages, unless it exists."""
    folder = Path(folder)
    for place in (folder, *(folder / stage for stage in record.read(folder).get("stages", {}))):
        if not (place / "README.md").exists():
            model_card(place).save(place / "README.md")


def _recipes(run: Mapping[str, Any]) -> list[Recipe]:
    """The recipe of a run, or the recipes of the members of an ensemble."""
    request = run["request"]
    return [record.recipe({"recipe": values}) for values in request.get("ensemble", [request["recipe"]])]


def _leading(run: Mapping[str, Any]) -> Recipe:
    """The recipe of a run; for an ensemble, that of the first member."""
    return _recipes(run)[0]


def _front_matter(
    name: str,
    run: Mapping[str, Any],
    bases: Sequence[str],
    evaluations: Sequence[Mapping[str, Any]],
    widget: list[dict[str, Any]],
) -> "ModelCardData":
    from huggingface_hub import ModelCardData

    data_name = run["request"]["data_name"]
    languages = sources.languages_of(run)
    return ModelCardData(
        model_name=name,
        language=languages if len(languages) > 1 else languages[0],
        license=sources.licence_of(run),
        library_name="peft" if _leading(run).model.method == "decoder" else "transformers",
        pipeline_tag="text-classification",
        base_model=list(bases) if len(bases) > 1 else next(iter(bases), None),
        datasets=["cdconv"] if data_name == RELEASE else None,
        metrics=[figure.hub_type for figure in FIGURES],
        tags=["contradiction-detection", "dialogue"],
        eval_results=[entry for result in evaluations for entry in _eval_results(result)] or None,
        widget=widget or None,
    )


# The functions below return parts of the template's input.


def _what_it_tells(recipe: Recipe) -> dict[str, Any]:
    task, target = task_of(recipe.data.config), recipe.data.target
    sentence = BASELINE_SENTENCE if recipe.data.view == HYPOTHESIS_ONLY else SENTENCES[task]
    return {
        "task_sentence": STAGE_SENTENCE.format(target) if target else sentence,
        "labels": ", ".join(f"`{label}`" for label in (STAGES[target] if target else LABELS[task])),
    }


def _use(folder: Path, name: str, run: Mapping[str, Any], recipe: Recipe, texts: Mapping[str, str]) -> dict[str, Any]:
    """The use of the model, with its output for the texts of an example."""
    stages, members = list(run.get("stages", {})), record.members(run)
    ensemble = [part.name for part in method_of(folder).parts(folder)] if "ensemble" in run else []
    # The example uses the last stage of a hierarchical model, which reads all utterances, and the first member of an
    # ensemble that transformers can load.
    plain = [member for member in ensemble if method_of(folder / member).TRANSFORMERS]
    checkpoint = stages[-1] if stages else plain[0] if plain else ""
    columns = VIEWS[stages[-1] if stages else recipe.data.view]
    alone = bool(stages or plain or method_of(folder).TRANSFORMERS)  # whether transformers loads it
    separator = separator_of(folder / checkpoint) if alone else ""
    example = text_pair(columns, separator, texts) if alone else None
    examples = [example, text_pair(columns, separator, consistent(texts))] if example else []
    answers = pipeline_answers(folder / checkpoint, examples) if alone else []
    judges = columns[-1:] == CONVERSATION[-1:]
    verdict = detector_verdict(folder, texts) if judges else None
    return {
        "checkpoint": "/".join(filter(None, (name, checkpoint))),
        "stages": stages,
        "ensemble": [
            (name, record.recipe(member["request"]), len(member.get("soup", [])))
            for name, member in zip(ensemble, members, strict=False)
        ],
        "read": {column for member in _recipes(run) for column in VIEWS.get(member.data.view, CONVERSATION)},
        "columns": ", ".join(columns),
        "before": columns[:-1],
        "separator": separator,
        "example": example,
        "scores_of_example": answers[0].scores if answers else None,
        # The widget loads what stands in the root of the repo, which is no checkpoint for stages and ensembles.
        "widget": [] if checkpoint else _widget(answers),
        "judges": judges,
        "facade": judges and task_of(recipe.data.config) != "persona",
        "chat": chat_of(texts),
        "verdict": verdict,
        "mistaken": verdict is not None and not recipe.data.target and verdict.label not in RIGHT,
    }


def _widget(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """The examples of the widget on the Hub. It shows their scores also where no server runs the model."""
    return [
        {
            "text": answer.text,
            "example_title": title,
            "output": [{"label": label, "score": score} for label, score in answer.scores.items()],
        }
        for title, answer in zip(("Contradiction", "No contradiction"), answers, strict=False)
        if answer.text
    ]


def _headline(evaluations: Sequence[Mapping[str, Any]], config: str) -> str | None:
    """The macro-F1 on the test split of the model's own config, with its interval; None without an evaluation."""
    for result in evaluations:
        if (result["config"], result["split"]) == (config, "test"):
            place = f"the test split of {result['data_name']}" if result.get("data_name") else "the test split"
            by_rule, *argmax = (
                f"{figure_text(each['metrics'], FIGURES[0].key)} %" for each in (result, result.get("argmax")) if each
            )
            how = f" with the [decision rule](#decision-rule), {argmax[0]} by the most probable label" if argmax else ""
            return f"Macro-F1 on {place}, `{config}`: {by_rule}{how}."
    return None


def _decision(run: Mapping[str, Any], rule: Rule, evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The decision rule, and the parts of the evaluations that depend on it."""
    return {
        "rule": rule if rule != Rule() else None,
        "kept": run.get(record.RULE_KEPT),
        "stale": any(rule_of(result) != rule.without_curve() for result in evaluations),
        "has_argmax": any("argmax" in result for result in evaluations),
        "settings": _settings(evaluations, rule),
    }


def _figures(evaluations: Sequence[Mapping[str, Any]], config: str) -> dict[str, Any]:
    baselines = [
        baseline
        for result in evaluations
        for baseline in results.baselines(result["config"], result["split"], data=result["data"])
    ]
    return {
        "scores": score_table([*evaluations, *baselines], "", with_split=True) if evaluations else None,
        "baselines": bool(baselines),
        "classes": [class_table(result) for result in evaluations],
        "calibration_error": next((_calibration_error(r) for r in evaluations if _is_on_test(r, config)), None),
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


def _is_on_test(evaluation: Mapping[str, Any], config: str) -> bool:
    """Whether an evaluation is on the test split of the model's own config, with probabilities."""
    return (evaluation["config"], evaluation["split"]) == (config, "test") and "probabilities" in evaluation


def _settings(evaluations: Sequence[Mapping[str, Any]], rule: Rule) -> list[Table]:
    """The tables of settings, one for each set of rows: 2-class and 4-class evaluations of a split have the same."""
    usable = [result for result in evaluations if not missing_reason(result, rule)]
    by_rows = {tuple(result["ids"]): result for result in reversed(usable)}
    return [settings_table(result, rule) for result in by_rows.values()]


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
            dataset_type="cdconv",
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
    last = f"fine-tuned from {backbone_name(recipe.model.backbone)}"
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
