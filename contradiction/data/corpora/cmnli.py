"""CMNLI: the Chinese part of XNLI and a translation of MNLI, as the benchmark CLUE published them."""

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus
from contradiction.data.corpora.pairs import EXCHANGED, pair_reader
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
    checksums=EXCHANGED,
    description="The texts are translated, the training texts by machine. The known files are the halves of a smaller "
    "edition in which dev (6,117 pairs) and test (6,118 pairs) have labels. That edition has the words for entailment "
    "and neutral exchanged; they are put right.",
)
