"""MuTual: which of four English replies follows from the chat; MuTual-plus has an evasive reply among the four."""

import re
from collections.abc import Iterator
from pathlib import Path

from contradiction.data.corpora.corpus import CHATS, WHOLE, Config, Corpus, Row, messages_of
from contradiction.errors import InputError
from contradiction.io.lines import read_objects
from contradiction.labels import CHAT, LABELS, PLUS

WRONG, RIGHT = LABELS["response"]
LETTERS = "ABCD"
_SPOKEN = re.compile(r"(?:^|(?<=\s))([mf])\s?[:;]\s*(.*?)(?=\s[mf]\s?[:;]|$)", re.IGNORECASE | re.DOTALL)


def read(path: Path) -> Iterator[Row]:
    """Each option of each item as a row; the rows of an item have its id as ``source``."""
    for where, item in read_objects(path, "id", "article", "options", "answers"):
        answer = item["answers"].strip()
        if len(item["options"]) != len(LETTERS) or (answer and answer not in tuple(LETTERS)):
            raise InputError(f"{where}: must have four options, and an answer A to D or none")
        spoken = [(speaker.lower(), text.strip()) for speaker, text in _SPOKEN.findall(item["article"])]
        turns = [(speaker, text) for speaker, text in spoken if text]
        if not turns:
            raise InputError(f"{where}: article has no utterance after 'm :' or 'f :'")
        # The speaker who did not speak last replies. The options of a few items name the other one, which is ignored.
        replier = "f" if turns[-1][0] == "m" else "m"
        for letter, option in zip(LETTERS, item["options"], strict=True):
            label = None if not answer else RIGHT if letter == answer else WRONG
            reply = _SPOKEN.sub(lambda match: match[2], option.strip())
            yield Row(
                f"{item['id']}-{letter}", label, messages=messages_of(turns, replier), reply=reply, source=item["id"]
            )


CORPUS = Corpus(
    name="mutual",
    title="MuTual",
    languages=("en",),
    license="unknown",
    homepage="https://github.com/Nealcly/MuTual",
    citation="Cui et al., MuTual: A Dataset for Multi-Turn Dialogue Reasoning, ACL 2020",
    size="train 7,088, dev 886, test 886 unlabelled",
    configs=tuple(
        Config(
            name,
            shape,
            LABELS["response"],
            files={
                split: (f"{folder}.{part}.jsonl", f"data/{folder}/{part}/*.txt")
                for split, part in (("train", "train"), ("validation", "dev"), ("test", "test"))
            },
            read=read,
            source_is_item=True,
        )
        for name, shape, folder in (
            ("mutual", CHATS, "mutual"),
            ("mutual_plus", CHATS, "mutual_plus"),
            (f"{CHAT}response", WHOLE, "mutual"),
            (f"{CHAT}response{PLUS}", WHOLE, "mutual_plus"),
        )
    ),
    checksums={
        "mutual.train.jsonl": "5b930148245a33c3eb93e9f6e11b0e201a7bead7e0b7fbabe5c39f166c16e314",
        "mutual.dev.jsonl": "82b8ddad30548721ea1089944fa8d1a214c71e970e4d8726461d101ffb410f6c",
        "mutual.test.jsonl": "dd590fea37104c4dbcd8b9fbce8f4981dda196c6b6dca720dad3c1d42a62cfb6",
        "mutual_plus.train.jsonl": "f189e505fac75df86263c7786d98f61f2224d2f17c1e8e73cd5f2de8933709ca",
        "mutual_plus.dev.jsonl": "c69f60b7b830ca7a60a809f60ec1bbe6de768d3864bf8ae7e01d67452308c9c2",
        "mutual_plus.test.jsonl": "3565e8d0ae1ce1d5b46a3b9323937069203782915419bb934df239090946ad69",
    },
    description="The sizes are of items. A row is one of the four replies of an item; `source` names the item.",
)
