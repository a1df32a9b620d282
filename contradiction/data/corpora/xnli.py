"""XNLI in Chinese: the development and test pairs by professional translators, the training pairs by machine."""

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus
from contradiction.data.corpora.pairs import pair_reader
from contradiction.labels import LABELS

CORPUS = Corpus(
    name="xnli",
    title="XNLI, Chinese",
    languages=("zh",),
    license="cc-by-nc-4.0",
    homepage="https://github.com/facebookresearch/XNLI (Hub: facebook/xnli, config zh)",
    citation="Conneau et al., XNLI: Evaluating Cross-lingual Sentence Representations, EMNLP 2018",
    size="train 392,702, dev 2,490, test 5,010",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={
                "train": ("train.tsv", "multinli.train.zh.tsv"),
                "validation": ("dev.tsv", "xnli.dev.tsv"),
                "test": ("test.tsv", "xnli.test.tsv"),
            },
            read=pair_reader(),
        ),
    ),
    checksums={
        "dev.tsv": "de410cda40ac49f98228d7bf8d46cc8d628c6e1ba40d812a618511b5074cbbfc",
        "test.tsv": "7e790296c1e5a989b4e98ab60e354293e322ab6b0b2cc3ccb9dd9c7286030e04",
    },
    description="The release holds all fifteen languages in one file; only its Chinese rows are read.",
)
