"""DECODE: English chats whose last utterance contradicts what its speaker said earlier, or does not.

Three formats are read: the JSON lines of the release (``turns`` with the indices of the contradicted ones), flat
dialogues (``history``, ``last``, ``label``), and pairs of utterances (``earlier``, ``last``, ``label``). The config
``nli-2-class`` is for the structured method of the paper, and ``chat-2-class`` for the unstructured one.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from contradiction.conversation import ASSISTANT
from contradiction.data.corpora.corpus import CHATS, PAIRS, WHOLE, Config, Corpus, Note, Row, messages_of
from contradiction.errors import InputError
from contradiction.io.lines import read_objects
from contradiction.labels import CONTRADICTION, LABELS, NON_CONTRADICTION

GROUPS = {
    "train": "train", "validation": "dev", "test": "test", "human_bot": "human-bot", "a2t": "a2t", "rct": "rct",
}  # fmt: skip
TRAINED = ("train", "validation", "test")  # the groups of the configs to train on
_SPOKEN = re.compile(r"<([01])> ?(.*?)(?= ?<[01]> |$)", re.DOTALL)
NO_HISTORY = "dialogues left out, because nothing is said before the last turn"


def read_dialogues(path: Path) -> Iterator[Row | Note]:
    """The dialogues of a file of the release, or of flat dialogues."""
    marked: dict[str, set[str]] | None = None
    for number, (where, row) in enumerate(read_objects(path), start=1):
        if "turns" in row:
            dialogue = _of_release(row, where)
        elif "history" in row:
            if marked is None:
                marked = _marked(path)
            dialogue = _of_flat(row, where, f"{path.stem}-{number}", marked)
        else:
            raise InputError(f"{where}: has {', '.join(map(str, row))}; a dialogue has turns, or history and last")
        yield dialogue if dialogue.messages else Note(NO_HISTORY)


def read_pairs(path: Path) -> Iterator[Row]:
    """The pairs of a file: an earlier utterance as premise, the last as hypothesis.

    A dialogue of the release becomes pairs: the last utterance with each one that it contradicts. Where it contradicts
    none, it is paired with the previous utterance of its speaker.
    """
    for number, (where, row) in enumerate(read_objects(path), start=1):
        if "earlier" in row:
            label, premise = label_of(row, "label", where), _text(row, "earlier", where)
            yield Row(f"{path.stem}-{number}", label, premise=premise, hypothesis=_text(row, "last", where))
        else:
            yield from _pairs_of(_of_release(row, where))


def label_of(row: Mapping[str, Any], key: str, where: str) -> str:
    """The label name of a row; raises InputError unless its value is 0, 1, true or false."""
    value = row.get(key)
    if value not in (0, 1):  # true and false are also numbers
        raise InputError(f"{where}: {key} is {value!r}; it must be 0 or 1, or true or false")
    return CONTRADICTION if value else NON_CONTRADICTION


def _of_release(row: Mapping[str, Any], where: str) -> Row:
    try:
        turns = [(str(turn["agent_id"]), turn["text"]) for turn in row["turns"]]
        name, marked = str(row["record_id"]), row["aggregated_contradiction_indices"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: not a dialogue of DECODE ({error!r})") from None
    if not turns:
        raise InputError(f"{where}: turns is empty")
    speaker, reply = turns.pop()
    label = label_of(row, "is_contradiction", where)
    evidence = tuple(sorted(index for index in set(marked) if index < len(turns)))
    auxiliary = row.get("auxiliary") or {}
    return Row(
        name, label, messages=messages_of(turns, speaker), reply=reply,
        evidence=evidence if evidence or label == NON_CONTRADICTION else None,
        source=str(row["conversation_id"]) if "conversation_id" in row else None,
        extra={"bot": auxiliary.get("original_model"), "origin": auxiliary.get("source")},
    )  # fmt: skip


def _of_flat(row: Mapping[str, Any], where: str, name: str, marked: Mapping[str, set[str]]) -> Row:
    turns = _SPOKEN.findall(_text(row, "history", where))
    last = _SPOKEN.findall(_text(row, "last", where))
    if not turns or len(last) != 1:
        raise InputError(f"{where}: history and last must hold utterances after <0> or <1>, and last one of them")
    (speaker, reply), label = last[0], label_of(row, "label", where)
    clashing = marked.get(reply.strip(), set())
    evidence = tuple(index for index, (_, text) in enumerate(turns) if text.strip() in clashing)
    return Row(
        name, label, messages=messages_of(turns, speaker), reply=reply,
        evidence=() if label == NON_CONTRADICTION else evidence or None,
    )  # fmt: skip


def _marked(path: Path) -> dict[str, set[str]]:
    """Last utterance -> the earlier ones it contradicts, from the file of pairs beside flat dialogues."""
    pairs = path.with_name(path.name.replace("dialogues", "pairs"))
    contradicted: dict[str, set[str]] = defaultdict(set)
    if pairs != path and pairs.is_file():
        for row in read_pairs(pairs):
            if row.label == CONTRADICTION:
                contradicted[row.hypothesis.strip()].add(row.premise.strip())
    return contradicted


def _pairs_of(row: Row) -> Iterator[Row]:
    replies = [index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT]
    for index in row.evidence or replies[-1:]:
        yield Row(
            f"{row.id}-{index}", row.label, premise=row.messages[index]["content"], hypothesis=row.reply, source=row.id
        )


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(value := row.get(key), str):
        raise InputError(f"{where}: {key} must be text")
    return value


DIALOGUES = {
    split: (f"{name}.jsonl", f"dialogues.{name}.jsonl", f"decode_v0.1/{name}.jsonl") for split, name in GROUPS.items()
}

CORPUS = Corpus(
    name="decode",
    title="DECODE",
    languages=("en",),
    license="unknown",
    homepage="http://parl.ai/downloads/decode/decode_v0.1.zip",
    citation="Nie et al., I like fish, especially dolphins: Addressing Contradictions in Dialogue Modeling, ACL 2021",
    size="train 27,184, dev 4,026, test 4,216, human-bot 764, A2T 2,079, RCT 2,011",
    configs=(
        Config(
            "dialogues",
            CHATS,
            LABELS["2-class"],
            files=DIALOGUES,
            read=read_dialogues,
            extra={"bot": "string", "origin": "string"},
        ),
        Config(
            "nli-2-class",
            PAIRS,
            LABELS["2-class"],
            files={
                split: (f"pairs.{name}.jsonl", f"{name}.jsonl", f"decode_v0.1/{name}.jsonl")
                for split, name in GROUPS.items()
                if split in TRAINED
            },
            read=read_pairs,
        ),
        Config(
            "chat-2-class",
            WHOLE,
            LABELS["2-class"],
            files={split: DIALOGUES[split] for split in TRAINED},
            read=read_dialogues,
        ),
    ),
    checksums={
        "decode_v0.1.zip": "084aab98652a04ce4a78c1a63d91575f5ab416a0c474b962ca1f4508a56b7484",
        "dialogues.dev.jsonl": "5c54192583e8dea4e81c14bc5823084fdf5d6c3667193aeef5312c8f18c86a77",
        "human-bot.jsonl": "8da52ac6051ada1f04058e790af45a49960f5eb2f9d08a75ab91c72ad5617f72",
        "pairs.dev.jsonl": "cb6094c0f6022cb3f5dcfb5a8ca48f3ce853d5b7775026886940af3a20eabf45",
        "pairs.train.jsonl": "7834672cb5e42f6e080d854a973169d01cafa171e1f395b08f235a80b31400b6",
        "rct.jsonl": "606e23a96b43492650f12892cec2308020dde09680a23c6e0f38474addd4b8f6",
    },
    description="The speaker of the last utterance is the assistant, the other is the user. A2T inserts turns into "
    "contradicting dialogues of the test set, RCT removes the contradicted turn, and human-bot are real chats with "
    "thirty-two bots. Flat dialogues take their evidence from the file of pairs that lies beside them.",
)
