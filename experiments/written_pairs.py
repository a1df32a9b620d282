"""The corpus of written pairs, which is not published: a Chinese chat with two similar replies, one a contradiction."""

from collections.abc import Iterator
from pathlib import Path

from contradiction.data.corpora.corpus import CHATS, Config, Corpus, Note, Row
from contradiction.errors import InputError
from contradiction.io.lines import read_objects
from contradiction.labels import CATEGORIES, LABELS, NON_CONTRADICTION

KEYS = ("id", "batch", "phenomenon", "messages", "good", "bad", "label", "evidence", "evidence_span", "bad_span")


def read(path: Path) -> Iterator[Row | Note]:
    """Both replies of each pair, the consistent one first."""
    for where, pair in read_objects(path, *KEYS):
        if pair["label"] not in CATEGORIES:
            raise InputError(f"{where}: label {pair['label']!r}; allowed are {', '.join(CATEGORIES)}")
        messages = tuple({"role": message["role"], "content": message["content"]} for message in pair["messages"])
        common = {"batch": pair["batch"], "phenomenon": pair["phenomenon"]}
        yield Row(
            f"{pair['id']}-good", NON_CONTRADICTION, messages=messages, reply=pair["good"], evidence=(),
            source=pair["id"], extra={**common, "evidence_clause": None, "reply_clause": None},
        )  # fmt: skip
        yield Row(
            f"{pair['id']}-bad", pair["label"], messages=messages, reply=pair["bad"],
            evidence=() if pair["evidence"] is None else (pair["evidence"],), source=pair["id"],
            extra={**common, "evidence_clause": pair["evidence_span"], "reply_clause": pair["bad_span"]},
        )  # fmt: skip


CORPUS = Corpus(
    name="written",
    title="Written pairs",
    languages=("zh",),
    license="unknown",
    homepage="not published; the crossed corpus follows the same idea",
    citation="Minimal pairs written one by one by a large language model",
    size="780 pairs",
    configs=(
        Config(
            "pairs",
            CHATS,
            LABELS["4-class"],
            files={"train": ("w[0-9]*.jsonl",)},
            read=read,
            source_is_item=True,
            extra={
                "batch": "string",
                "phenomenon": "string",
                "evidence_clause": "string",
                "reply_clause": "string",
            },  # fmt: skip
        ),
    ),
    checksums={
        "w1.jsonl": "56b8fc39ee58ca32a310a2a7b0255fe7ca380ffad73568b112e358793621f2ae",
        "w2.jsonl": "6d866dd9161527cd1836302f50fa41b8b8493e831bbedffacfccc3c886d89c45",
        "w3.jsonl": "746695c5534e94352842720286b4f4bc8c5bfc7c63a03790e9d609022a723ddc",
        "w4.jsonl": "e2c89560070c6e4caab247cce5cfde8e679435321392ad8352d1818978ca061c",
        "w5.jsonl": "cebdd693664f209b0fd5d9cfc543058c207ae006157cac66ebf77d5fb7131255",
        "w6.jsonl": "2d44bc2366b7a98766f78113e30ca0fbeed37057a23b2296fc55947cb92aedda",
        "w7.jsonl": "7101982c2a5f0bd4351ecc4cda26e3b426b9111b2aa403f5e8d3453404ba0373",
    },
    description="The two replies of a pair are alike in length, topic and style.",
)
