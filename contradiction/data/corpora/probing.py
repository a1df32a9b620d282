"""Probes of Chinese NLI: heuristics (HANS), stress tests and diagnostics, each pair with the category it tests.

The authors' tree is read, and also a flat copy with a file for each probe, such as ``hans.json``.
"""

from collections.abc import Iterator
from pathlib import Path

from contradiction.data.corpora.corpus import PAIRS, Config, Corpus, Row
from contradiction.data.corpora.pairs import pair_of
from contradiction.io.lines import read_objects
from contradiction.labels import LABELS

CATEGORY = ("category", "phenomenon")
# The names of the authors' files that are not a probe followed by `_final`.
PROBES = {"chinese-hans-full": "hans", "diagnostics-new-with-categories": "diagnostics", "new_logic_test": "logic"}


def read(path: Path) -> Iterator[Row]:
    """The pairs of a probe with their category."""
    probe = probe_of(path)
    for number, (where, row) in enumerate(read_objects(path), start=1):
        premise, hypothesis, label = pair_of(row, where)
        category = next((row[name] for name in CATEGORY if name in row), probe)
        extra = {"probe": probe, "category": category}
        yield Row(f"{probe}-{number}", label, premise=premise, hypothesis=hypothesis, extra=extra)


def probe_of(path: Path) -> str:
    """The name of the probe in a file of either layout."""
    return PROBES.get(path.stem, path.stem.removesuffix("_final"))


# Computed on the flat copy, whose files have the length of the authors' files. It has no spelling probe.
CHECKSUMS = {
    "antonym_final.json": "cfb02431fb079fe2a5ba1d02b86d546877f3e16e98a2a7c072f1abf1b3b3082a",
    "chinese-hans-full.json": "ad5d55d50c021a50b24544556143b9dc49f963660d98b76e5ade314e5bf8348b",
    "diagnostics-new-with-categories.json": "5ac28299a5a504bb2976e36b8319bfc3997f76f86407718822f15a20c20291ab",
    "distraction_hypo_final.json": "305b46b2d19db1ad243e17947ea3221803816e7453d74bc0944af4f071107edf",
    "distraction_premise_final.json": "69211878c5a36e58bb9f7b08bba0fc30398d4ad2a0ba85aaf3ca8c2c708b143d",
    "new_logic_test.json": "3bcd2e304b2401f0c8918768fe5db9865bd7d65f023211fa6703e8c0625b0444",
    "numerical_final.json": "a3828e3aa0370f1ec7bcf191d3e2ae2e00d2fb98a1e40c6828b9574aeba513aa",
    "synonym_final.json": "ef80188fbe42b4e9520ed1ff4965d4ada33bcab734915ae024705dd6fd8bea52",
}

CORPUS = Corpus(
    name="probing",
    title="Probes of Chinese NLI",
    languages=("zh",),
    license="unknown",
    homepage="https://github.com/huhailinguist/ChineseNLIProbing",
    citation="Hu et al., Investigating Transfer Learning in Multilingual Pre-trained Language Models through Chinese "
    "Natural Language Inference, Findings of ACL 2021",
    size="test 43,364",
    configs=(
        Config(
            "nli",
            PAIRS,
            LABELS["nli"],
            files={"test": ("**/*.json",)},
            read=read,
            extra={"probe": "string", "category": "string"},
        ),
    ),
    checksums=CHECKSUMS | {f"{probe_of(Path(name))}.json": checksum for name, checksum in CHECKSUMS.items()},
    description="Heuristics after HANS, stress tests (antonyms, synonyms, distraction, numbers, spelling), semantic "
    "fragments (logic) and a diagnostic set by linguistic phenomenon. These pairs are for evaluation only.",
)
