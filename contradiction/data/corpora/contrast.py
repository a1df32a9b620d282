"""Contrast pairs: two replies to one chat, of which one is a contradiction.

The pairs were written for this project. None of their chats is in CDConv, so habits of its bots or annotators do not
help. Simple cues do not help either: the contradiction is the longer reply in half of the pairs, and in half it shares
more characters with the bot's first reply. Pairs of similar inputs with different labels are contrast sets (Gardner et
al., 2020, *Evaluating models' local decision boundaries via contrast sets*). Grouped by what has to be understood, they
are minimum functionality tests (Ribeiro et al., 2020, *Beyond accuracy: behavioral testing of NLP models with
CheckList*).
"""

from collections.abc import Iterator
from pathlib import Path

from contradiction.conversation import alternating
from contradiction.data.corpora.corpus import CHATS, Config, Corpus, Row
from contradiction.io.lines import read_objects
from contradiction.labels import LABELS, NON_CONTRADICTION
from contradiction.paths import SAMPLE

FILE = SAMPLE.with_name("contrast.jsonl")
KEYS = ("phenomenon", "turns", "contradicts", "label", "fits")


def read(path: Path) -> Iterator[Row]:
    """Both replies of each pair; ``source`` numbers the pair."""
    for number, (_, pair) in enumerate(read_objects(path, *KEYS), start=1):
        for reply, label in (("contradicts", pair["label"]), ("fits", NON_CONTRADICTION)):
            yield Row(
                f"{number}-{reply}", label, messages=tuple(alternating(pair["turns"])), reply=pair[reply],
                source=str(number), extra={"phenomenon": pair["phenomenon"]},
            )  # fmt: skip


CORPUS = Corpus(
    name="contrast",
    title="Contrast pairs",
    languages=("zh",),
    license="cc0-1.0",
    homepage="part of this package",
    citation="Written for this project by a large language model",
    size="test 168",
    configs=(
        Config(
            "contrast",
            CHATS,
            LABELS["4-class"],
            files={"test": (FILE.name,)},
            read=read,
            extra={"phenomenon": "string"},
        ),
    ),
    description="Two replies to one chat, of which one is a contradiction; grouped by what has to be understood.",
    bundled=FILE.parent,
)
