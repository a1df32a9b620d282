"""Plans a run: openings, personas, and the probes that are made of them."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from contradiction.conversation import check_texts, is_blank, is_chinese
from contradiction.errors import InputError, first_line, kind_of, shown
from contradiction.io.files import read_lines, read_text
from contradiction.probing.triggers import ABOUT_THE_USER, INQUIRING_BOT, METHODS, PERSONA, REPEAT, ask_about, lists

ALL_TRIGGERS = (*METHODS, f"{REPEAT}-2", f"{REPEAT}-10")  # and PERSONA, if the bot gets a persona
OPENINGS = Path(__file__).with_name("openings.txt")
Message = dict[str, str]
REPLY = 20  # characters of a reply, for the estimate; those of CDConv have 12


@dataclass(frozen=True)
class Probe:
    """One planned conversation.

    Attributes:
        id: the trigger, a digest of the opening, and which time this opening is used; the same in every run with the
            same seed.
        trigger: for instance ``perturb-antonym``, ``repeat-5`` (the opening again after five other turns), ``persona``.
        u1: the opening.
        u2: the second thing the user says; None if it depends on the reply to the opening. For a persona probe, which
            has only one turn, the fact that the probe asks about.
        seed: of the plan.
        fillers: what the user says between u1 and u2.
        facts: what is true of the bot, in its own words; the bot gets them before the opening.
    """

    id: str
    trigger: str
    u1: str
    u2: str | None
    seed: int
    fillers: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def second(self, b1: str) -> str:
        """What the user says after the bot has said b1."""
        return self.u2 or METHODS[self.trigger](self.u1, b1, Random(f"{self.seed}/{self.id}")) or ""


def instruction(facts: Sequence[str]) -> list[Message]:
    """The message that gives a bot its persona; none without facts."""
    return [{"role": "system", "content": f"{lists()['persona']}\n{'。'.join(facts)}。"}] if facts else []


def read_openings(source: str | Path | None = None) -> list[str]:
    """Openings: those of the package, of a data repo with the columns of CDConv, or of a file.

    Args:
        source: None, a data repo (a folder or Hub id), or a file with one opening per line, in which lines with ``#``
            are comments.

    Raises:
        InputError: there is no such source, or a line holds no opening.
    """
    path = Path(source or OPENINGS)
    if not path.is_file():
        if path.suffix == ".txt" and not path.exists():  # a.txt and a/b.txt could be names on the Hub
            raise InputError(f"{path}: no such file")
        from contradiction.data.splits import load_split

        return list(dict.fromkeys(load_split(str(source), "4-class", "test")["u1"]))
    places = [(where, line.strip()) for where, line in read_lines(path) if not line.startswith("#")]
    if blank := [where for where, text in places if is_blank(text)]:
        raise InputError(f"{blank[0]}: holds no words")
    if not places:
        raise InputError(f"{path}: holds no opening")
    return list(dict.fromkeys(text for _, text in places))


def read_persona(path: str | Path) -> tuple[str, ...]:
    """The facts about a bot in a JSON file: a list of sentences, or an object of facts.

    Raises:
        InputError: the file holds no facts, or an English key that is not in ``words.toml``.
    """
    try:
        value: Any = json.loads(read_text(Path(path)))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({first_line(error)})") from None
    if isinstance(value, Mapping):
        value = [sentence for key, content in value.items() for sentence in _sentences(str(path), key, content)]
    facts = tuple(fact.strip("。 ") for fact in check_texts(value, str(path)))
    if not facts or any(is_blank(fact) for fact in facts):
        raise InputError(
            f'{path}: holds no facts; it must be a list of sentences, or an object like {{"姓名": "小林"}}'
        )
    return facts


def _sentences(where: str, key: str, content: object) -> list[str]:
    values = content if isinstance(content, list) else [content]
    if wrong := [value for value in values if not isinstance(value, str | int | float) or isinstance(value, bool)]:
        raise InputError(f"{where}: {shown(key)} is {kind_of(wrong[0])}; a fact must be text or a number")
    known = lists()["facts"]
    if key not in known and not is_chinese(key):  # 我的hobby是 is no Chinese sentence
        english = ", ".join(name for name in known if not is_chinese(name))
        raise InputError(f"{where}: key {shown(key)}; it must be Chinese, or one of {english}")
    return [known[key].format(value) if key in known else f"我的{key}是{value}" for value in values]


def fits(trigger: str, openings: Sequence[str], seed: int = 0, facts: Sequence[str] = ()) -> bool:
    """Whether some opening, or for a persona probe some fact, fits a trigger."""
    return any(_probe(trigger, text, 0, seed, ()) for text in _sources(trigger, openings, facts))


def plan(
    openings: Sequence[str], triggers: Sequence[str], count: int, *, seed: int = 0, facts: Sequence[str] = ()
) -> list[Probe]:
    """The probes, as many of each trigger; every opening is used before one is used again.

    Raises:
        InputError: there is no trigger, one is not known or named twice, or no opening fits it.
    """
    if not triggers or len(set(triggers)) < len(triggers):
        raise InputError(f"triggers {', '.join(triggers) or 'are missing'}; name at least one, and none twice")
    probes: list[Probe] = []
    for index, trigger in enumerate(triggers):
        wanted = count // len(triggers) + (index < count % len(triggers))
        probes += _of_trigger(trigger, openings, wanted, seed, tuple(facts))
    return probes


def _of_trigger(trigger: str, openings: Sequence[str], wanted: int, seed: int, facts: tuple[str, ...]) -> list[Probe]:
    sources = _sources(trigger, openings, facts)
    Random(f"{seed}/{trigger}").shuffle(sources)
    probes: list[Probe] = []
    for turn in range(wanted):
        probes += filter(None, (_probe(trigger, text, turn, seed, facts) for text in sources))
        if not probes or len(probes) >= wanted:  # if no opening fits, further turns change nothing
            break
    if len(probes) < wanted:
        kind = "fact of the persona" if trigger == PERSONA else "opening"
        raise InputError(f"trigger {trigger}: no {kind} fits it")
    return probes[:wanted]


def _sources(trigger: str, openings: Sequence[str], facts: Sequence[str]) -> list[str]:
    """The openings that suit a trigger; of a persona probe the facts that can be asked about."""
    if trigger == PERSONA:
        if not facts:
            raise InputError(f"trigger {PERSONA!r} asks about a persona, and none is given")
        return [fact for fact in facts if ask_about(fact, of_bot=True)]
    if trigger not in METHODS and not re.fullmatch(rf"{REPEAT}-[1-9][0-9]?", trigger):
        known = f"{', '.join(METHODS)}, {REPEAT}-N with N from 1 to 99, and {PERSONA}"
        raise InputError(f"trigger {shown(trigger)} does not exist; the triggers are {known}")
    questions = ("？", "?", "吗", "呢")
    # What asks about the user needs an opening that tells something; everything else needs a question.
    return [text for text in openings if text.rstrip(" 。！!~").endswith(questions) != (trigger in ABOUT_THE_USER)]


def _probe(trigger: str, text: str, turn: int, seed: int, facts: tuple[str, ...]) -> Probe | None:
    """The probe of an opening or a fact that was used ``turn`` times before; None if the rules find nothing in it."""
    key = f"{trigger}/{hashlib.sha256(text.encode()).hexdigest()[:10]}/{turn}"
    u1, u2, chance = text, None, Random(f"{seed}/{key}")
    fillers: tuple[str, ...] = ()
    if trigger == PERSONA:
        u1, u2 = ask_about(text, of_bot=True) or "", text
    elif trigger.startswith(f"{REPEAT}-"):
        words, turns = lists()["fillers"], int(trigger.rpartition("-")[2])
        u2, fillers = text, tuple((chance.sample(words, len(words)) * turns)[:turns])
    elif trigger != INQUIRING_BOT:
        u2 = METHODS[trigger](text, "", chance)
        if u2 is None:
            return None
    return Probe(key, trigger, u1, u2, seed, fillers, facts)


def cost(probes: Sequence[Probe]) -> tuple[int, int, int]:
    """The calls of the bot, and the tokens that they send and receive; calls after an error come on top.

    A character counts as one token, and a reply as ``REPLY``.
    """
    calls = tokens_in = 0
    for probe in probes:
        before = sum(len(message["content"]) for message in instruction(probe.facts))
        utterances = [probe.u1] if probe.trigger == PERSONA else [probe.u1, *probe.fillers, probe.u2 or " " * REPLY]
        for text in utterances:
            calls += 1
            tokens_in += before + len(text)
            before += len(text) + REPLY
    return calls, tokens_in, calls * REPLY
