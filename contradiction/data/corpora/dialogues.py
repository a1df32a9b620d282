"""English dialogues: DECODE, MuTual and DialFact.

DECODE: does the last turn contradict an earlier one? MuTual: which of four replies follows? DialFact: does a passage of
Wikipedia support or refute what a reply states?
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from contradiction.conversation import ASSISTANT, USER, check_text
from contradiction.data.corpora import CHATS, PAIRS, WHOLE, Config, Corpus, Note, Row
from contradiction.errors import InputError, shown
from contradiction.io.files import read_objects
from contradiction.labels import CHAT, CONTRADICTION, LABELS, NON_CONTRADICTION, PLUS


def messages_of(turns: Iterable[tuple[str, str]], replier: str) -> tuple[dict[str, str], ...]:
    """Turns of speaker and text as messages: of the assistant those of the replier, of the user all others."""
    return tuple({"role": ASSISTANT if speaker == replier else USER, "content": text} for speaker, text in turns)


@contextmanager
def _of_form(form: Mapping[str, str], row: Mapping[str, Any], where: str) -> Iterator[None]:
    """Raises InputError where a row cannot be read; it names the place, the keys of the form, and what the row has."""
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        wanted = ", ".join(f"{key} ({value})" for key, value in form.items())
        found = ", ".join(f"{key} {shown(row[key])}" for key in form if key in row) or "none of these"
        raise InputError(f"{where}: must have {wanted}; has {found}") from error


# DECODE

GROUPS = {
    "train": "train", "validation": "dev", "test": "test", "human_bot": "human-bot", "a2t": "a2t", "rct": "rct",
}  # fmt: skip
TRAINED = ("train", "validation", "test")  # the groups of the configs to train on
_SPOKEN = re.compile(r"<([01])> ?(.*?)(?= ?<[01]> |$)", re.DOTALL)
RELEASE = {
    "turns": "agent_id and text of each", "record_id": "a name",
    "aggregated_contradiction_indices": "numbers of contradicting turns",
}  # fmt: skip
FLAT = {"history": "utterances after <0> or <1>, if there are no turns", "last": "one such utterance"}
PAIR = {"earlier": "a text", "last": "a text"}
NO_HISTORY = "dialogues left out, because nothing is said before the last turn"


def read_dialogues(path: Path) -> Iterator[Row | Note]:
    """The dialogues of a file of the release (``turns``), or of flat dialogues (``history``, ``last``, ``label``)."""
    marked = _marked(path)
    for number, (where, row) in enumerate(read_objects(path), start=1):
        if "turns" in row:
            dialogue = _of_release(row, where)
        else:
            with _of_form(FLAT, row, where):
                dialogue = _of_flat(row, where, f"{path.stem}-{number}", marked)
        yield dialogue if dialogue.messages else Note(NO_HISTORY)


def read_pairs(path: Path) -> Iterator[Row]:
    """The pairs of a file (``earlier``, ``last``, ``label``): an earlier utterance as premise, the last as hypothesis.

    A dialogue of the release becomes pairs: the last utterance with each one that it contradicts. Where it contradicts
    none, it is paired with the previous utterance of its speaker.
    """
    for number, (where, row) in enumerate(read_objects(path), start=1):
        if "earlier" in row:
            label = _label_of(row, "label", where)
            with _of_form(PAIR, row, where):
                earlier, last = (check_text(row[key], f"{where}: {key}") for key in PAIR)
            yield Row(f"{path.stem}-{number}", label, premise=earlier, hypothesis=last)
        else:
            yield from _pairs_of(_of_release(row, where))


def _label_of(row: Mapping[str, Any], key: str, where: str) -> str:
    """The label name of a row; raises InputError unless its value is 0, 1, true or false."""
    value = row.get(key)
    if value not in (0, 1):  # true and false are also numbers
        raise InputError(f"{where}: {key} is {value!r}; it must be 0 or 1, or true or false")
    return CONTRADICTION if value else NON_CONTRADICTION


def _of_release(row: Mapping[str, Any], where: str) -> Row:
    label = _label_of(row, "is_contradiction", where)
    with _of_form(RELEASE, row, where):
        *turns, (speaker, reply) = (
            (str(turn["agent_id"]), check_text(turn["text"], f"{where}: text of a turn")) for turn in row["turns"]
        )
        marked, name = set(row["aggregated_contradiction_indices"]), str(row["record_id"])
        evidence = tuple(sorted(index for index in marked if index < len(turns)))
    auxiliary = row.get("auxiliary") or {}
    return Row(
        name, label, messages=messages_of(turns, speaker), reply=reply,
        evidence=evidence if evidence or label == NON_CONTRADICTION else None,
        source=str(row["conversation_id"]) if "conversation_id" in row else None,
        extra={"bot": auxiliary.get("original_model"), "origin": auxiliary.get("source")},
    )  # fmt: skip


def _of_flat(row: Mapping[str, Any], where: str, name: str, marked: Mapping[str, set[str]]) -> Row:
    turns, [(speaker, reply)] = _SPOKEN.findall(row["history"]), _SPOKEN.findall(row["last"])
    label = _label_of(row, "label", where)
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


DIALOGUES = {
    split: (f"{name}.jsonl", f"dialogues.{name}.jsonl", f"decode_v0.1/{name}.jsonl") for split, name in GROUPS.items()
}
PAIR_FILES = {
    split: (f"pairs.{name}.jsonl", f"{name}.jsonl", f"decode_v0.1/{name}.jsonl")
    for split, name in GROUPS.items()
    if split in TRAINED
}
CHAT_FILES = {split: DIALOGUES[split] for split in TRAINED}

DECODE = Corpus(
    name="decode",
    title="DECODE",
    languages=("en",),
    license="unknown",
    homepage="http://parl.ai/downloads/decode/decode_v0.1.zip",
    citation="Nie et al., I like fish, especially dolphins: Addressing Contradictions in Dialogue Modeling, ACL 2021",
    size="train 27,184, dev 4,026, test 4,216, human-bot 764, A2T 2,079, RCT 2,011",
    configs=(
        Config(
            "dialogues", CHATS, LABELS["2-class"], DIALOGUES, read_dialogues,
            extra={"bot": "string", "origin": "string"},
        ),
        Config("nli-2-class", PAIRS, LABELS["2-class"], PAIR_FILES, read_pairs),  # for the structured method
        Config("chat-2-class", WHOLE, LABELS["2-class"], CHAT_FILES, read_dialogues),  # for the unstructured one
    ),
    description="The speaker of the last utterance is the assistant, the other is the user. A2T inserts turns into "
    "contradicting dialogues of the test set, RCT removes the contradicted turn, and human-bot are real chats with "
    "thirty-two bots. Flat dialogues take their evidence from the file of pairs that lies beside them.",
)  # fmt: skip


# MuTual

WRONG, RIGHT = LABELS["response"]
LETTERS = ("A", "B", "C", "D")
OPTIONS = {
    "id": "a text", "article": "utterances after 'm :' or 'f :'", "options": "four texts",
    "answers": f"{', '.join(LETTERS)} or empty",
}  # fmt: skip
_NAMED = re.compile(r"(?:^|(?<=\s))([mf])\s?[:;]\s*(.*?)(?=\s[mf]\s?[:;]|$)", re.IGNORECASE | re.DOTALL)


def read_options(path: Path) -> Iterator[Row]:
    """Each option of each item as a row; the rows of an item have its id as ``source``."""
    seen: set[str] = set()
    for where, item in read_objects(path):
        with _of_form(OPTIONS, item, where):
            name, answer = check_text(item["id"], f"{where}: id"), item["answers"].strip()
            right = LETTERS.index(answer) if answer else None
            spoken = [(speaker.lower(), text.strip()) for speaker, text in _NAMED.findall(item["article"])]
            turns = [(speaker, text) for speaker, text in spoken if text]
            # The speaker who did not speak last replies. The options of a few items name the other one; it is ignored.
            replier = "f" if turns[-1][0] == "m" else "m"
            replies = [_NAMED.sub(lambda match: match[2], option.strip()) for option in item["options"]]
            options = [*zip(LETTERS, replies, strict=True)]
        if name in seen:  # otherwise the scores of items would count both as one
            raise InputError(f"{where}: another item has the id {name!r}")
        seen.add(name)
        for place, (letter, reply) in enumerate(options):
            label = None if right is None else RIGHT if place == right else WRONG
            yield Row(f"{name}-{letter}", label, messages=messages_of(turns, replier), reply=reply, source=name)


MUTUAL = Corpus(
    name="mutual",
    title="MuTual",
    languages=("en",),
    license="unknown",
    homepage="https://github.com/Nealcly/MuTual",
    citation="Cui et al., MuTual: A Dataset for Multi-Turn Dialogue Reasoning, ACL 2020",
    size="train 7,088, dev 886, test 886 unlabelled",
    configs=tuple(
        Config(
            name, shape, LABELS["response"],
            {
                split: (f"{folder}.{part}.jsonl", f"data/{folder}/{part}/*.txt")
                for split, part in (("train", "train"), ("validation", "dev"), ("test", "test"))
            },
            read_options,
        )
        for name, shape, folder in (
            ("mutual", CHATS, "mutual"),
            ("mutual_plus", CHATS, "mutual_plus"),
            (f"{CHAT}response", WHOLE, "mutual"),
            (f"{CHAT}response{PLUS}", WHOLE, "mutual_plus"),
        )
    ),
    description="The sizes are of items. A row is one of the four replies of an item; `source` names the item.",
)  # fmt: skip


# DialFact

NAMES = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFO": "not enough information"}
SUPPORTS, REFUTES, UNKNOWN = NAMES.values()
# The NLI label of evidence and claim -> the label of the claim.
OF_NLI = {"entailment": SUPPORTS, CONTRADICTION: REFUTES, "neutral": UNKNOWN}
CLAIM = {
    "id": "a text", "context_id": "a text", "context": "texts", "response": "a text",
    "response_label": ", ".join(NAMES), "type_label": "factual or personal",
    "evidence_list": "lists of title, address and passage",
}  # fmt: skip


def read_claims(path: Path) -> Iterator[Row]:
    """The claims of a file."""
    for where, row in read_objects(path):
        with _of_form(CLAIM, row, where):
            # The reply is the assistant's, and the speakers take turns.
            speakers = [(ASSISTANT, USER)[left % 2] for left in range(len(row["context"]), 0, -1)]
            passages = [passage for passage in row["evidence_list"] if passage[2].strip()]
            claim = Row(
                check_text(row["id"], f"{where}: id"), NAMES[row["response_label"]],
                messages=messages_of(zip(speakers, map(str.strip, row["context"]), strict=True), ASSISTANT),
                reply=row["response"].strip(), source=row["context_id"],
                extra={
                    "verifiable": row["type_label"] == "factual",
                    "titles": [passage[0] for passage in passages],
                    "passages": [passage[2] for passage in passages],
                    "written": row.get("data_type") == "written",
                },
            )  # fmt: skip
        yield claim


def read_verification(path: Path) -> Iterator[Row]:
    """Pairs of evidence and claim from a file, with the labels of NLI, to learn to verify claims."""
    names = {name: label for label, name in OF_NLI.items()}
    for row in read_claims(path):
        evidence = " ".join(row.extra["passages"])
        yield replace(row, label=names[str(row.label)], premise=evidence, hypothesis=row.reply)


def read_verifiable(path: Path) -> Iterator[Row]:
    """The claims of a file, labelled as verifiable or not verifiable, to learn to find verifiable ones."""
    for row in read_claims(path):
        yield replace(row, label=LABELS["verifiable"][row.extra["verifiable"]])


FILES = {
    "train": ("augmented.jsonl",),
    "validation": ("valid_split.jsonl", "data/valid_split.jsonl"),
    "test": ("test_split.jsonl", "data/test_split.jsonl", "testsmall.jsonl", "scripts/testsmall.jsonl"),
}

DIALFACT = Corpus(
    name="dialfact",
    title="DialFact",
    languages=("en",),
    license="bsd-3-clause",
    homepage="https://github.com/salesforce/DialFact",
    citation="Gupta et al., DialFact: A Benchmark for Fact-Checking in Dialogue, ACL 2022",
    size="validation 10,436, test 11,809",
    configs=(
        Config(
            "claims", CHATS, tuple(NAMES.values()), FILES, read_claims,
            extra={"verifiable": "bool", "titles": "strings", "passages": "strings", "written": "bool"},
        ),
        Config("nli", PAIRS, LABELS["nli"], FILES, read_verification),
        Config("chat-verifiable", WHOLE, LABELS["verifiable"], FILES, read_verifiable),
    ),
    description="The passages of a claim that is supported or refuted are its evidence. For a claim without enough "
    "information, they are what the annotators were shown. A claim is verifiable if it states a fact about the world. "
    "No training split is published; claims in the same format can be read from `augmented.jsonl`. "
    "The licence is that of the authors' repository.",
)  # fmt: skip
