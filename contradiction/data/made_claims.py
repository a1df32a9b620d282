"""Training claims for fact checking, made from replies that rest on evidence, like those of AugWoW.

Each reply gives one supported claim. With a negation, another number or another name, its own evidence refutes it
(Gupta et al., 2022, *DialFact*, section 4.2). With the passages of another chat, there is not enough information. A
language model behind an endpoint can write further claims of all three kinds.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from contradiction.conversation import USER, chat_to_text
from contradiction.data.corpora import dialfact
from contradiction.data.corpora.corpus import CHATS, Config, Row, messages_of, read_file
from contradiction.data.corpora.dialfact import NAMES, REFUTES, SUPPORTS, UNKNOWN
from contradiction.errors import InputError, first_line
from contradiction.io.endpoint import Endpoint
from contradiction.io.files import locked
from contradiction.io.lines import LineFile, read_json_rows

# A negation is inserted after the first auxiliary that follows a word; an existing negation is removed.
_AUXILIARY = re.compile(
    r"(?<=\w )\b(is|are|was|were|am|has|have|had|can|could|will|would|should|does|do|did|may|might|must)"
    r"( not|n['’]t|(?<=can)['’]t)?\b"
)
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?![\w])")
_NAME = re.compile(r"\b[A-Z][\w'-]+(?: (?:of |the |de |and )?[A-Z][\w'-]+)*")
WIZARD = "0_Wizard"

Draw = np.random.Generator
Change = Callable[[Row, Sequence[Row], Draw], str | None]


def read_supported(path: Path) -> list[Row]:
    """Replies with the passages that support them.

    The file has claims in the format of DialFact, of which only the supported ones are read, or the chats of Wizard of
    Wikipedia as one JSON list, of which only replies that rest on a sentence are read.

    Raises:
        InputError: the file is in neither format, or no reply has evidence.
    """
    _, first = next(iter(read_json_rows(path)), ("", None))
    if isinstance(first, Mapping) and "dialog" in first:
        entries = read_file(path, Config("chats", CHATS, (SUPPORTS,), {}, _of_wizard), "Wizard of Wikipedia")
    else:
        entries = read_file(path, dialfact.CORPUS.config(), dialfact.CORPUS.title)
    rows = [row for row in entries if isinstance(row, Row) and row.label == SUPPORTS and row.extra["passages"]]
    if not rows:
        raise InputError(f"{path}: no reply has a passage that supports it")
    return rows


def _of_wizard(path: Path) -> Iterator[Row]:
    for number, (where, chat) in enumerate(read_json_rows(path), start=1):
        try:
            turns = [(turn["speaker"], turn["text"]) for turn in chat["dialog"]]
            facts = [turn.get("checked_sentence") or {} for turn in chat["dialog"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where}: not a chat of Wizard of Wikipedia ({first_line(error)})") from None
        for place, (speaker, text) in enumerate(turns):
            titles = [(title, fact) for title, fact in facts[place].items() if "no_passages_used" not in fact]
            if speaker == WIZARD and place and titles:
                extra = {"titles": [title for title, _ in titles], "passages": [fact for _, fact in titles]}
                yield Row(f"{number}-{place}", SUPPORTS, messages=messages_of(turns[:place], speaker), reply=text,
                          source=str(number), extra=extra)  # fmt: skip


def negated(row: Row, rows: Sequence[Row], draw: Draw) -> str | None:
    """The claim with a negation after its first auxiliary, or without an existing one; None without an auxiliary."""
    match = _AUXILIARY.search(row.reply)
    if not match:
        return None
    verb = match[1] if match[2] else f"{match[1]} not"
    return row.reply[: match.start()] + verb + row.reply[match.end() :]


def other_number(row: Row, rows: Sequence[Row], draw: Draw) -> str | None:
    """The claim with a number that its evidence also has replaced by a nearby one; None without such a number."""
    known = set(_NUMBER.findall(" ".join(row.extra["passages"])))
    for match in _NUMBER.finditer(row.reply):
        if match[0] in known:
            value = int(match[0].replace(",", ""))
            changed = value + int(draw.integers(1, max(3, min(value // 10, 20)))) * int(draw.choice([-1, 1]))
            text = f"{abs(changed):,}" if "," in match[0] else str(abs(changed))
            return None if text in known else row.reply[: match.start()] + text + row.reply[match.end() :]
    return None


def other_name(row: Row, rows: Sequence[Row], draw: Draw) -> str | None:
    """The claim with a name that its evidence has, too, replaced by a name from other evidence.

    The new name has as many words as the old one, and occurs neither in the claim nor in its evidence. None where there
    is no name to replace, or none to replace it with.
    """
    evidence = " ".join(row.extra["passages"])
    shared = [match for match in _NAME.finditer(row.reply) if match[0] in evidence]
    if not shared:
        return None
    match = shared[-1]  # the first words of a sentence have capitals, too
    for index in draw.permutation(len(rows)):
        for passage in rows[index].extra["passages"]:
            for name in _NAME.findall(passage)[1:]:
                if name.count(" ") == match[0].count(" ") and name not in evidence and name not in row.reply:
                    return row.reply[: match.start()] + name + row.reply[match.end() :]
    return None


CHANGES: dict[str, Change] = {"negation": negated, "number": other_number, "entity": other_name}


def made(rows: Sequence[Row], seed: int = 0) -> Iterator[Row]:
    """The claims made from supported replies: unchanged, refuted in each way that applies, and with other passages.

    Other passages come from a row of another ``source``.
    """
    draw = np.random.default_rng(seed)
    has_others = len({row.source for row in rows}) > 1
    for row in rows:
        yield replace(row, extra={**row.extra, "made": "original"})
        for kind, change in CHANGES.items():
            text = change(row, rows, draw)
            if text:
                extra = {**row.extra, "made": kind}
                yield replace(row, id=f"{row.id}-{kind}", label=REFUTES, reply=text, extra=extra)
        if has_others:
            drawn = row
            while drawn.source == row.source:
                drawn = rows[int(draw.integers(len(rows)))]
            yield replace(row, id=f"{row.id}-passage", label=UNKNOWN, extra={**drawn.extra, "made": "passage"})


GENERATED = {
    SUPPORTS: "states only what the evidence says",
    REFUTES: "states something that the evidence contradicts",
    UNKNOWN: "states a fact on the same topic that the evidence neither supports nor contradicts",
}


def generated(rows: Iterable[Row], endpoint: Endpoint, answers: Path) -> Iterator[Row]:
    """A reply of each kind to the chat of each claim, written by a language model.

    Each answer is appended to a file. Only answers that it does not have yet are requested. A refusal gives no claim.

    Raises:
        InputError: the endpoint gives no answer (earlier answers are kept), a line of the file is not an answer, or
            another process writes the file.
    """
    with locked(answers), closing(_answers(answers)) as file:
        known = {(model, prompt): reply for model, prompt, reply in file.keep()}
        for row in rows:
            for label, wanted in GENERATED.items():
                prompt = _prompt(row, wanted)
                key = (endpoint.model, prompt)
                if key not in known:
                    answer = endpoint.ask([{"role": USER, "content": prompt}], temperature=1.0)
                    if answer.instead:
                        continue
                    known[key] = answer.text
                    file.add([[*key, known[key]]])
                kind = f"generated {label}"
                extra = {**row.extra, "made": kind}
                yield replace(row, id=f"{row.id}-{kind}", label=label, reply=known[key], extra=extra)


def _prompt(row: Row, wanted: str) -> str:
    return (
        f"Evidence: {' '.join(row.extra['passages'])}\nChat: {chat_to_text(row.messages)}\n"
        f"Write one short reply of the assistant that {wanted}. Answer with the reply alone."
    )


def _answers(path: Path) -> LineFile:
    def check(value: Any) -> None:
        model, prompt, _ = value
        hash((model, prompt))  # a list would be no key

    return LineFile(path, check, "not a JSON list of model, prompt and reply; remove the line to ask again")


def line_of(row: Row) -> dict[str, Any]:
    """A claim in the format of DialFact; ``data_type`` says how it was made."""
    names = {label: name for name, label in NAMES.items()}
    titles, passages = row.extra["titles"], row.extra["passages"]
    return {
        "context_id": row.source, "id": row.id, "context": [message["content"] for message in row.messages],
        "response": row.reply, "response_label": names[str(row.label)], "type_label": "factual",
        "data_type": row.extra["made"],
        "evidence_list": [[title, "", text, ""] for title, text in zip(titles, passages, strict=True)],
    }  # fmt: skip
