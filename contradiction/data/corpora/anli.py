"""ANLI: English NLI whose hypotheses were written to mislead a model."""

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus
from contradiction.data.corpora.pairs import pair_reader
from contradiction.labels import LABELS

CORPUS = Corpus(
    name="anli",
    title="ANLI",
    languages=("en",),
    license="cc-by-nc-4.0",
    homepage="https://github.com/facebookresearch/anli (Hub: facebook/anli)",
    citation="Nie et al., Adversarial NLI: A New Benchmark for Natural Language Understanding, ACL 2020",
    size="train 162,865, dev 3,200, test 3,200",
    configs=tuple(
        Config(
            round_.lower(),
            PAIRS,
            LABELS["nli"],
            files={
                split: (f"{round_}.{name}.jsonl", f"{round_}/{name}.jsonl")
                for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))
            },
            read=pair_reader(source="uid", extra=("genre", "model_label")),
            extra={"genre": "string", "model_label": "string"},
        )
        for round_ in ("R1", "R2", "R3")
    ),
    checksums={
        "R1.dev.jsonl": "4d6a01499b91046be7aa9daf1d1e716261b0c08698962b23389477c8400064e2",
        "R1.test.jsonl": "11b257c63a3caa825b80ac86b6d895407c62616d56036482344344099e7d3fa5",
        "R2.dev.jsonl": "7b90cd9c9cb7d8ff12bc31257a56bf219718704c5798faf3b295b9e94b14b889",
        "R2.test.jsonl": "804dbe173fbe08e6e069db8811016ebe5e065dfd1c47ed741dac6d8816f4fadc",
        "R3.dev.jsonl": "42eca71392a3c90ee0dc83bb2cedb45165279f903a9c706bf11337be11c469bd",
        "R3.test.jsonl": "fe456c2935f71d7ffe49bd8d95c2b2355f7383f72423c3018fa40479992f0004",
    },
)
