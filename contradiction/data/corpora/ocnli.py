"""OCNLI: Chinese NLI that was written in Chinese, and not translated."""

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus
from contradiction.data.corpora.pairs import pair_reader
from contradiction.labels import LABELS

CORPUS = Corpus(
    name="ocnli",
    title="OCNLI",
    languages=("zh",),
    license="cc-by-nc-2.0",
    homepage="https://github.com/CLUEbenchmark/OCNLI (Hub: clue/clue, config ocnli)",
    citation="Hu et al., OCNLI: Original Chinese Natural Language Inference, Findings of EMNLP 2020",
    size="train 50,486, dev 3,000, test 3,000 unlabelled",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={"train": ("train.50k.json",), "validation": ("dev.json",), "test": ("test.json",)},
            read=pair_reader(source="prem_id", extra=("level", "genre")),
            extra={"level": "string", "genre": "string"},
        ),
    ),
    checksums={
        "train.50k.json": "cb47a6c00105bfb49bbb791dd537b284d3138f9f1ad5cd1e187afc470ff004e0",
        "dev.json": "001ded235d73a18dac68a45a38cd5f9b3f9311fa4246df623e199422c073ddc5",
    },
    description="The level of a development row says whether its hypothesis was the first (easy), second (medium) or "
    "third (hard) that the annotator wrote. Nearly all premises of the development set also stand in the training set.",
)
