"""What the card of a cascade says: its two parts, and the measured curve of cost and quality."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating
from contradiction.evaluation import card_use, cascades
from contradiction.evaluation.figures import TASKS
from contradiction.evaluation.licences import credits_sentence, languages_of, licence_of, linked, strictest
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import percent
from contradiction.labels import LABELS, RELEASE
from contradiction.methods.composite import CascadeClassifier
from contradiction.methods.llm_judge import LLMJudge
from contradiction.methods.loading import has_causal_part, method_of, parts_of
from contradiction.training import leakage, record


def section(folder: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    """What the template needs for a cascade with its record, besides the values of every card."""
    measured = run[record.CASCADE]
    parts, description = CascadeClassifier.parts(folder), CascadeClassifier.describe(folder)
    steps = [cascades.Step(**step) for step in measured["curve"]]
    *_, task = steps[0].macro_f1  # after 2-class
    licence = _licence(folder)
    detector, judge = _described_parts(folder, licence)
    trained_on = [training.data_name for training in leakage.trainings(run)]
    languages = _languages(parts[0])
    endpoints = any(method_of(part) is LLMJudge for part in parts_of(folder))
    chat = alternating(card_use.example_in(languages)[column] for column in CONVERSATION)
    # An example by an endpoint would cost a request.
    verdict = card_use.verdict_on(folder, chat) if task in TASKS and not endpoints else None
    return {
        "languages": languages,
        "licence": licence,
        "bases": _bases(folder),
        "data_name": RELEASE if RELEASE in trained_on else next(iter(trained_on), None),
        "config": measured["config"],
        "task": task,
        "labels": LABELS[task],
        "detector": detector,
        "judge": judge,
        "low": description["low"],
        "high": description["high"],
        "share": percent(measured["share"]),
        "rows": f"{measured['rows']:,}",
        "rows_of": measured["data_name"],
        "curve": cascades.table(steps, measured["rows"]),
        "costs": any(step.tokens for step in steps),
        "unscored": measured["rows"] - steps[0].scored,
        "endpoints": endpoints,
        "causal": has_causal_part(folder),
        "judges": task in TASKS,
        "facade": task in TASKS,
        "example": None,
        "stages": [],
        "chat": chat,
        "verdict": verdict,
        "mistaken": verdict is not None and verdict.label not in card_use.RIGHT,
    }


def _described_parts(folder: Path, licence: str) -> list[str]:
    """Both parts of a cascade in words; ``licence`` is that of the whole, which the card states elsewhere."""
    parts = CascadeClassifier.parts(folder)
    named = record.options_of(record.read(folder), record.CASCADE).get("parts") or [part.name for part in parts]
    return [_described(part, name.partition("@")[0], licence) for part, name in zip(parts, named, strict=True)]


def _described(part: Path, name: str, licence: str) -> str:
    """A part in words: its name, kind, size and sources, and its licence if it is another; of a cascade, its parts."""
    method, run = method_of(part), record.read(part)
    if method is LLMJudge:
        return f"the language model `{method.describe(part)['model']}`, which is not in this repo."
    if method is CascadeClassifier:
        return "`{}`, a cascade. Its detector is {} Its judge is {}".format(name, *_described_parts(part, licence))
    size = f" of {run['parameters'] / 1e6:,.1f} M parameters" if "parameters" in run else ""
    if method.PARTS:
        kind = f"a detector{size} with {len(method.parts(part))} {method.PARTS}"
    else:
        kind = f"a language model{size} that reads the whole chat" if method.reads_chats else f"an encoder{size}"
    corpora = dict.fromkeys(corpus for each in _runs(part) for corpus in each.get("corpora") or [])
    sources = credits_sentence(_bases(part), list(corpora), "language model" if has_causal_part(part) else "encoder")
    made_of = f" It uses {sources}." if sources else ""
    own = _licence(part)
    return f"`{name}`, {kind}.{made_of}" + (f" Licence: {linked(own)}." if own != licence else "")


def _runs(folder: Path) -> list[Mapping[str, Any]]:
    """The records of a model, of its parts, and of their members."""
    return [run for part in map(record.read, parts_of(folder)) for run in (part, *record.members(part))]


def _bases(folder: Path) -> list[str]:
    return list(dict.fromkeys(filter(None, map(record.base_model_of_run, _runs(folder)))))


def _licence(folder: Path) -> str:
    """The strictest licence of the weights; a cascade has none of its own, and those of an endpoint are elsewhere."""
    parts = [part for part in parts_of(folder) if method_of(part) not in (CascadeClassifier, LLMJudge)]
    return strictest(licence_of(record.read(part)) for part in parts)


def _languages(part: Path) -> list[str]:
    """The languages that the first part judges, which reads every reply."""
    return (
        _languages(CascadeClassifier.parts(part)[0])
        if method_of(part) is CascadeClassifier
        else languages_of(record.read(part))
    )
