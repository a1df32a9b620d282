"""DialFact: replies that state a fact, with passages of Wikipedia that support or refute it.

The config ``claims`` has all of the data. A model learns to verify claims from ``nli``: evidence and claim, with the
labels of NLI. It learns to find verifiable claims from ``chat-verifiable``.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from contradiction.conversation import ASSISTANT, USER
from contradiction.data.corpora.corpus import CHATS, PAIRS, WHOLE, Config, Corpus, Row, messages_of
from contradiction.errors import InputError
from contradiction.io.lines import read_objects
from contradiction.labels import CONTRADICTION, LABELS

NAMES = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFO": "not enough information"}
SUPPORTS, REFUTES, UNKNOWN = NAMES.values()
# The NLI label of evidence and claim -> the label of the claim.
OF_NLI = {"entailment": SUPPORTS, CONTRADICTION: REFUTES, "neutral": UNKNOWN}
KEYS = ("id", "context_id", "context", "response", "evidence_list", "response_label", "type_label")


def read(path: Path) -> Iterator[Row]:
    """The claims of a file."""
    for where, row in read_objects(path, *KEYS):
        if row["response_label"] not in NAMES:
            raise InputError(f"{where}: response_label {row['response_label']!r}; allowed are {', '.join(NAMES)}")
        # The reply is the assistant's, and the speakers take turns.
        speakers = [(ASSISTANT, USER)[left % 2] for left in range(len(row["context"]), 0, -1)]
        passages = [passage for passage in row["evidence_list"] if passage[2].strip()]
        yield Row(
            row["id"], NAMES[row["response_label"]],
            messages=messages_of(zip(speakers, map(str.strip, row["context"]), strict=True), ASSISTANT),
            reply=row["response"].strip(), source=row["context_id"],
            extra={
                "verifiable": row["type_label"] == "factual",
                "titles": [passage[0] for passage in passages],
                "passages": [passage[2] for passage in passages],
                "written": row.get("data_type") == "written",
            },
        )  # fmt: skip


def read_verification(path: Path) -> Iterator[Row]:
    """Pairs of evidence and claim from a file, with the labels of NLI."""
    names = {name: label for label, name in OF_NLI.items()}
    for row in read(path):
        evidence = " ".join(row.extra["passages"])
        yield replace(row, label=names[str(row.label)], premise=evidence, hypothesis=row.reply)


def read_verifiable(path: Path) -> Iterator[Row]:
    """The claims of a file, labelled as verifiable or not verifiable."""
    for row in read(path):
        yield replace(row, label=LABELS["verifiable"][row.extra["verifiable"]])


FILES = {
    "train": ("augmented.jsonl",),
    "validation": ("valid_split.jsonl", "data/valid_split.jsonl"),
    "test": ("test_split.jsonl", "data/test_split.jsonl", "testsmall.jsonl", "scripts/testsmall.jsonl"),
}

CORPUS = Corpus(
    name="dialfact",
    title="DialFact",
    languages=("en",),
    license="bsd-3-clause",
    homepage="https://github.com/salesforce/DialFact",
    citation="Gupta et al., DialFact: A Benchmark for Fact-Checking in Dialogue, ACL 2022",
    size="validation 10,436, test 11,809",
    configs=(
        Config(
            "claims",
            CHATS,
            tuple(NAMES.values()),
            files=FILES,
            read=read,
            extra={"verifiable": "bool", "titles": "strings", "passages": "strings", "written": "bool"},
        ),
        Config("nli", PAIRS, LABELS["nli"], files=FILES, read=read_verification),
        Config("chat-verifiable", WHOLE, LABELS["verifiable"], files=FILES, read=read_verifiable),
    ),
    checksums={"testsmall.jsonl": "cc7c258131e08005096f4a1bd9574a478687c64cb7d6d36b7eb52d9b825e1d3d"},
    description="The passages of a claim that is supported or refuted are its evidence. For a claim without enough "
    "information, they are what the annotators were shown. A claim is verifiable if it states a fact about the world. "
    "No training split is published; claims in the same format can be read from `augmented.jsonl`. "
    "The licence is that of the authors' repository.",
)
