"""Crossed chats whose replies are as long as those of language models; see ``contradiction.data.corpora.crossed``."""

from dataclasses import replace

from contradiction.data.corpora import crossed
from contradiction.labels import CROSSED_LONG

CORPUS = replace(
    crossed.CORPUS,
    name=CROSSED_LONG,
    title="Crossed chats with long replies",
    size="train 8,592, validation 496, test 728",
    configs=(replace(crossed.CORPUS.config(), name=CROSSED_LONG), *crossed.CORPUS.configs[1:]),
    description=f"{crossed.CORPUS.description} Replies and messages of the assistant have 60 to 240 characters.",
    bundled=crossed.FOLDERS[CROSSED_LONG],
)
