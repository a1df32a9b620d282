"""CMNLI: the Chinese part of XNLI and a translation of MNLI, as the benchmark CLUE published them."""

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus
from contradiction.data.corpora.pairs import pair_reader
from contradiction.labels import LABELS

CORPUS = Corpus(
    name="cmnli",
    title="CMNLI",
    languages=("zh",),
    license="unknown",
    homepage="https://github.com/CLUEbenchmark/CLUE (Hub: clue/clue, config cmnli)",
    citation="Xu et al., CLUE: A Chinese Language Understanding Evaluation Benchmark, COLING 2020",
    size="train 391,783, dev 12,241, test 13,880 unlabelled",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={"train": ("train.json",), "validation": ("dev.json",), "test": ("test.json",)},
            read=pair_reader(),
        ),
    ),
    checksums={
        "dev.json": "2bb43623a4427205c2a7e48b8c3955ec3985e4a2708a034f83f23b13463b96e6",
        "test.json": "d9f9d74d923da36850fc11c43db95d6d85695408c869b777f80c085eb26a31bd",
    },
    description="The texts are translated, the training texts by machine. The known files are the halves of a smaller "
    "edition in which dev (6,117 pairs) and test (6,118 pairs) have labels. That edition has the words for entailment "
    "and neutral exchanged; they are put right.",
)
