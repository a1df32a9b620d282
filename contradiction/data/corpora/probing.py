"""Probes of Chinese NLI: heuristics (HANS), stress tests and diagnostics, each pair with the category it tests."""

from collections.abc import Iterator
from pathlib import Path

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus, Note, Row, read_json_rows
from contradiction.data.corpora.pairs import pair_of
from contradiction.labels import LABELS

CATEGORY = ("category", "phenomenon")


def read(path: Path) -> Iterator[Row | Note]:
    """The pairs of a probe with their category."""
    for number, (where, row) in enumerate(read_json_rows(path), start=1):
        premise, hypothesis, label = pair_of(row, where)
        category = next((row[name] for name in CATEGORY if name in row), path.stem)
        extra = {"probe": path.stem, "category": category}
        yield Row(f"{path.stem}-{number}", label, premise=premise, hypothesis=hypothesis, extra=extra)


CORPUS = Corpus(
    name="probing",
    title="Probes of Chinese NLI",
    languages=("zh",),
    licence="unknown",
    home="https://github.com/huhailinguist/ChineseNLIProbing",
    origin="Hu et al., Investigating Transfer Learning in Multilingual Pre-trained Language Models through Chinese "
    "Natural Language Inference, Findings of ACL 2021",
    size="test 31,688",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={"test": ("*.json",)},
            read=read,
            extra={"probe": "string", "category": "string"},
        ),
    ),
    checksums={
        "antonym.json": "cfb02431fb079fe2a5ba1d02b86d546877f3e16e98a2a7c072f1abf1b3b3082a",
        "diagnostics.json": "5ac28299a5a504bb2976e36b8319bfc3997f76f86407718822f15a20c20291ab",
        "distraction_hypo.json": "305b46b2d19db1ad243e17947ea3221803816e7453d74bc0944af4f071107edf",
        "distraction_premise.json": "69211878c5a36e58bb9f7b08bba0fc30398d4ad2a0ba85aaf3ca8c2c708b143d",
        "hans.json": "ad5d55d50c021a50b24544556143b9dc49f963660d98b76e5ade314e5bf8348b",
        "logic.json": "3bcd2e304b2401f0c8918768fe5db9865bd7d65f023211fa6703e8c0625b0444",
        "numerical.json": "a3828e3aa0370f1ec7bcf191d3e2ae2e00d2fb98a1e40c6828b9574aeba513aa",
        "synonym.json": "ef80188fbe42b4e9520ed1ff4965d4ada33bcab734915ae024705dd6fd8bea52",
    },
    about="Heuristics after HANS, stress tests (antonyms, synonyms, distraction, numbers, logic) and a diagnostic set "
    "by linguistic phenomenon. These pairs are for evaluation only.",
)
