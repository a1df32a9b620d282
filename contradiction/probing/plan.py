"""Plans a run: openings, personas, and the probes that are made of them."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from contradiction.conversation import check_text, check_texts, is_blank
from contradiction.errors import InputError, first_line, kind_of, shown
from contradiction.io.lines import read_lines, read_objects
from contradiction.probing.triggers import (
    ABOUT_THE_USER,
    INQUIRING_BOT,
    METHODS,
    PARAPHRASING,
    PERSONA,
    REPEAT,
    ask_about,
    lists,
)

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
        start: the messages before the opening: the persona.
        fillers: what the user says between u1 and u2.
        facts: what is true of the bot, in its own words.
    """

    id: str
    trigger: str
    u1: str
    u2: str | None
    start: tuple[Message, ...] = ()
    fillers: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def second(self, b1: str, seed: int) -> str:
        """What the user says after the bot has said b1."""
        return self.u2 or METHODS[self.trigger](self.u1, b1, Random(f"{seed}/{self.id}")) or ""

    @property
    def calls(self) -> int:
        """How many replies the bot gives."""
        return 1 if self.trigger == PERSONA else 2 + len(self.fillers)


@dataclass(frozen=True)
class Persona:
    """What is true of the bot.

    Attributes:
        facts: sentences in the bot's own words.
        as_turns: the facts are the first thing the bot says, instead of a system message.
    """

    facts: tuple[str, ...]
    as_turns: bool = False

    def messages(self) -> tuple[Message, ...]:
        """The messages before the opening."""
        words, statement = lists()["persona"], "。".join(self.facts) + "。"
        if self.as_turns:
            return ({"role": "user", "content": words["introduction"]}, {"role": "assistant", "content": statement})
        return ({"role": "system", "content": f"{words['instruction']}\n{statement}"},)


def read_openings(source: str | Path | None = None) -> list[str]:
    """Openings: those of the package, of a data repo with the columns of CDConv, or of a file.

    Args:
        source: None, a data repo (a folder or Hub id), or a file: a text with one opening per line, in which lines with
            ``#`` are comments, or JSON lines with the key ``text``.

    Raises:
        InputError: there is no such source, or a line holds no opening.
    """
    path = Path(source or OPENINGS)
    if not path.is_file():
        from contradiction.data.splits import load_split

        return list(dict.fromkeys(load_split(str(source), "4-class", "test")["u1"]))
    if path.suffix in (".jsonl", ".json"):
        places = [(where, check_text(row["text"], f"{where}: text")) for where, row in read_objects(path, "text")]
    else:
        places = [(where, line.strip()) for where, line in read_lines(path) if not line.startswith("#")]
    if blank := [where for where, text in places if is_blank(text)]:
        raise InputError(f"{blank[0]}: holds no words")
    if not places:
        raise InputError(f"{path}: holds no opening")
    return list(dict.fromkeys(text for _, text in places))


def read_persona(path: str | Path, *, as_turns: bool = False) -> Persona:
    """A persona from JSON: a list of sentences, an object of facts, or an object with the key ``facts``.

    Raises:
        InputError: the file holds no persona.
    """
    try:
        value: Any = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({first_line(error)})") from None
    if isinstance(value, Mapping) and isinstance(value.get("facts"), list):
        value = value["facts"]
    if isinstance(value, Mapping):
        value = [sentence for key, content in value.items() for sentence in _sentences(str(path), key, content)]
    facts = [fact.strip("。 ") for fact in check_texts(value, str(path))]
    if not facts or any(is_blank(fact) for fact in facts):
        raise InputError(
            f'{path}: holds no facts; it must be a list of sentences, or an object like {{"姓名": "小林"}}'
        )
    return Persona(tuple(facts), as_turns)


def _sentences(where: str, key: str, content: object) -> list[str]:
    values = content if isinstance(content, list) else [content]
    if wrong := [value for value in values if not isinstance(value, str | int | float) or isinstance(value, bool)]:
        raise InputError(f"{where}: {shown(key)} is {kind_of(wrong[0])}; a fact must be text or a number")
    pattern = lists()["facts"].get(key)
    return [pattern.format(value) if pattern else f"我的{key}是{value}" for value in values]


def all_triggers(after: Sequence[int], persona: bool) -> list[str]:
    """The names of all triggers: the eight of the paper, ``repeat-N``, and with a persona ``persona``."""
    return [*METHODS, *(f"{REPEAT}-{turns}" for turns in after), *([PERSONA] if persona else [])]


def plan(
    openings: Sequence[str], triggers: Sequence[str], count: int, *, seed: int = 0, persona: Persona | None = None
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
        probes += _of_trigger(trigger, openings, wanted, seed, persona)
    return probes


def _of_trigger(trigger: str, openings: Sequence[str], wanted: int, seed: int, persona: Persona | None) -> list[Probe]:
    sources = _sources(trigger, openings, persona)
    Random(f"{seed}/{trigger}").shuffle(sources)

    def attempt(text: str, turn: int) -> Probe | None:
        return _probe(trigger, text, turn, seed, persona)

    probes: list[Probe] = []
    if any(attempt(text, 0) for text in sources):
        attempts = (attempt(text, turn) for turn in range(wanted) for text in sources)
        probes = list(islice(filter(None, attempts), wanted))
    if len(probes) < wanted:
        kind = "fact of the persona" if trigger == PERSONA else "opening"
        raise InputError(f"trigger {trigger}: no {kind} fits it")
    return probes


def _sources(trigger: str, openings: Sequence[str], persona: Persona | None) -> list[str]:
    """The openings that suit a trigger; of a persona probe the facts that can be asked about."""
    if trigger == PERSONA:
        if not persona:
            raise InputError(f"trigger {PERSONA!r} asks about a persona, and none is given")
        return [fact for fact in persona.facts if ask_about(fact, of_bot=True)]
    if trigger not in METHODS and not re.fullmatch(rf"{REPEAT}-[0-9]+", trigger):
        known = f"{', '.join(METHODS)}, {REPEAT}-N and {PERSONA}"
        raise InputError(f"trigger {shown(trigger)} does not exist; the triggers are {known}")
    return [text for text in openings if _is_statement(text) == (trigger in ABOUT_THE_USER)]


def _probe(trigger: str, text: str, turn: int, seed: int, persona: Persona | None) -> Probe | None:
    """The probe of an opening or a fact that was used ``turn`` times before; None if the rules find nothing in it."""
    key = f"{trigger}/{hashlib.sha256(text.encode()).hexdigest()[:10]}/{turn}"
    u1, u2, chance = text, None, Random(f"{seed}/{key}")
    fillers: tuple[str, ...] = ()
    if trigger == PERSONA:
        u1, u2 = _reworded(ask_about(text, of_bot=True) or "", turn), text
    elif trigger.startswith(f"{REPEAT}-"):
        u2, fillers = text, _fillers(int(trigger.rpartition("-")[2]), chance)
    elif trigger != INQUIRING_BOT:
        u2 = METHODS[trigger](text, "", chance)
        if u2 is None:
            return None
    start, facts = (persona.messages(), persona.facts) if persona else ((), ())
    return Probe(key, trigger, u1, u2, start, fillers, facts)


def _reworded(question: str, turn: int) -> str:
    """A question, in other words every second time."""
    return (turn % 2 and METHODS[PARAPHRASING](question, "", Random(turn))) or question


def _is_statement(text: str) -> bool:
    """Whether an opening is a statement, and not a question."""
    return not text.rstrip(" 。！!~").endswith(("？", "?", "吗", "呢"))


def _fillers(turns: int, chance: Random) -> tuple[str, ...]:
    words = lists()["fillers"]
    return tuple(chance.sample(words, min(turns, len(words))) + chance.choices(words, k=max(0, turns - len(words))))


@dataclass(frozen=True)
class Estimate:
    """What a plan costs.

    Attributes:
        conversations, calls: how many.
        tokens_in, tokens_out: of all calls, at one token for each character and ``REPLY`` characters for each reply.
    """

    conversations: int
    calls: int
    tokens_in: int
    tokens_out: int

    def seconds(self, per_call: float, at_once: int, per_minute: float | None) -> float:
        """How long it takes."""
        return max(self.calls * per_call / at_once, 60 * self.calls / per_minute if per_minute else 0.0)


def estimate(probes: Sequence[Probe]) -> Estimate:
    """The cost of probes, before any of them is run; calls that are repeated after an error come on top."""
    tokens_in = 0
    for probe in probes:
        before = sum(len(message["content"]) for message in probe.start)
        utterances = [probe.u1] if probe.trigger == PERSONA else [probe.u1, *probe.fillers, probe.u2 or " " * REPLY]
        for text in utterances:
            before += len(text)
            tokens_in += before
            before += REPLY
    calls = sum(probe.calls for probe in probes)
    return Estimate(len(probes), calls, tokens_in, calls * REPLY)
