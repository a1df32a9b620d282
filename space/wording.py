"""The words of the page in the visitor's language, and what it says of a verdict."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import gradio as gr
from locales import LOCALES, prefers_chinese

from contradiction import Verdict

_TABLES = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
ENGLISH: dict[str, str] = _TABLES["en"]
CHINESE: dict[str, str] = _TABLES["zh"]
GLOSSES: dict[str, str] = _TABLES["glosses"]
REASONS: dict[str, str] = _TABLES["reasons"]
BOXES = ("u1", "b1", "u2", "b2")  # what the messages of two turns are called


def words_of(request: gr.Request) -> dict[str, str]:
    """The words in the language in which this visitor reads the page."""
    return CHINESE if prefers_chinese(request) else ENGLISH


def brief(verdict: Verdict, words: dict[str, str]) -> str:
    """The probability of any contradiction, and which it is, if one is called."""
    if verdict.label is None:
        return words["brief unjudged"]
    score = verdict.probability
    if not verdict.is_contradiction:
        return words["brief"].format(score=score)
    name = GLOSSES.get(verdict.label, verdict.label) if words is CHINESE else verdict.label
    return words["brief called"].format(label=name, score=score)


def headline(verdict: Verdict, words: dict[str, str] = ENGLISH, names: Sequence[str] = BOXES) -> str:
    """The verdict in one sentence, what else decided it than its probability, and what was not read.

    Args:
        verdict: of one reply.
        words: of the language.
        names: of the messages, by index.
    """
    if verdict.label is None or verdict.score is None:
        reason = because(verdict, words, names)
        return words["nothing"].format(reason=reason[:1].upper() + reason[1:])
    lines = [words["headline"].format(text=words.get(verdict.label, verdict.label), score=verdict.score)]
    if verdict.score < max(verdict.scores.values()):
        lines.append(words["less probable"])
    if not verdict.checked:
        lines.append(words["unread"].format(reason=because(verdict, words, names)))
    return "\n\n".join(lines)


def summary(verdicts: Sequence[Verdict], words: dict[str, str], names: Sequence[str]) -> str:
    """How many replies of a chat contradict, and what was not judged or not read; arguments as of :func:`headline`."""
    judged = [verdict for verdict in verdicts if verdict.label is not None]
    found = sum(bool(verdict.is_contradiction) for verdict in judged)
    lines = [words["scan headline" if judged else "scan nothing"].format(found=found, replies=len(judged))]
    unjudged = Counter(because(verdict, words, names) for verdict in verdicts if verdict.label is None)
    lines += [words["scan unjudged"].format(count=count, reason=reason) for reason, count in unjudged.items()]
    unread = dict.fromkeys(because(verdict, words, names) for verdict in judged if not verdict.checked)
    lines += [words["unread"].format(reason=reason) for reason in unread]
    return "\n\n".join(lines)


def because(verdict: Verdict, words: dict[str, str], names: Sequence[str]) -> str:
    """Why not all was checked; messages go by their names, and what a visitor wrote is no Markdown."""
    reason = str(verdict.reason)
    for index, name in enumerate(names):  # of these alone: in what a visitor wrote any number may stand
        reason = reason.replace(f"messages[{index}]", name)
    return plain(in_words(reason, words))


def in_words(reason: str, words: dict[str, str]) -> str:
    """What the library says in English, in the visitor's language where it is known there."""
    if words is CHINESE:
        for said, chinese in REASONS.items():
            reason = re.sub(said, chinese, reason)
    return reason


def plain(text: str) -> str:
    """A text whose marks of Markdown and HTML are shown as they are: a picture would be fetched from its host."""
    return re.sub(r"[\\`*_\[\]!<>&#|~]|:(?=//)", lambda mark: f"&#{ord(mark[0])};", text)


def translations(labels: Sequence[str], columns: Sequence[str], model: str) -> gr.I18n:
    """The words of the page around a detector, by language; the browser chooses.

    Args:
        labels: of the detector.
        columns: that it reads.
        model: its name.
    """

    def filled(words: dict[str, str]) -> dict[str, str]:
        named = words["comma"].join(words["name"].format(label=name, gloss=GLOSSES.get(name, name)) for name in labels)
        return words | {
            "introduction": words["introduction"].format(labels=named),
            "limits": words["limits"].format(model=model, columns=", ".join(columns)),
        }

    return gr.I18n(en=filled(ENGLISH), **{locale: filled(CHINESE) for locale in LOCALES})
