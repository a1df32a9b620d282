"""What a text gives away about its label: n-grams that occur with one label more often than by chance.

    .venv/bin/python experiments/artefacts.py ocnli --source FOLDER

The labels are those of the training split, or of the one that --split names.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np

from contradiction.conversation import is_chinese
from contradiction.data import corpora
from contradiction.data.corpora.corpus import read_split
from contradiction.errors import InputError
from contradiction.evaluation.baselines import CHARACTERS, WORDS
from contradiction.io.tables import Table, percent

SMOOTHING = 100  # added to each count, as Gururangan et al. (2018) and the paper of OCNLI do
LONGEST = 2  # the length of the longest n-grams
PER_LABEL = 6  # the most n-grams of a label in a table


@dataclass(frozen=True)
class Association:
    """An n-gram and the label that it occurs with.

    Attributes:
        label: the label.
        ngram: the n-gram.
        pmi: pointwise mutual information of both, smoothed, in bits.
        lmi: the same weighted by how often both occur together, not smoothed (Schuster et al., 2019).
        share: the share of the texts of the label that contain the n-gram.
    """

    label: str
    ngram: str
    pmi: float
    lmi: float
    share: float


def associations(
    texts: Sequence[str], labels: Sequence[str], *, characters: bool = False, fewest: int = 20
) -> list[Association]:
    """Every n-gram with every label that it occurs with more often than by chance, the highest PMI first.

    The n-grams are of words, or of characters. One counts once in each text, and must occur in ``fewest`` texts.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if len(texts) < fewest:
        return []
    units = CHARACTERS if characters else WORDS
    vectorizer = CountVectorizer(binary=True, min_df=fewest, ngram_range=(1, LONGEST), **units)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no n-gram occurs in enough texts
        return []
    names, label_names = vectorizer.get_feature_names_out(), sorted(set(labels))
    of_label = np.array([[label == name for name in label_names] for label in labels], dtype=float)
    together = np.asarray(counts.T @ of_label).astype(float)  # (n-grams, labels)
    sizes = of_label.sum(axis=0)
    pmi = _pmi(together + SMOOTHING)
    with np.errstate(divide="ignore", invalid="ignore"):
        lmi = np.nan_to_num(together / together.sum() * _pmi(together), nan=0.0, neginf=0.0)
    pairs = [
        Association(label, str(names[row]), float(pmi[row, column]), float(lmi[row, column]),
                    float(together[row, column] / sizes[column]))
        for column, label in enumerate(label_names)
        for row in np.flatnonzero(pmi[:, column] > 0)
        if names[row].strip()
    ]  # fmt: skip
    return sorted(pairs, key=lambda association: -association.pmi)


def _pmi(together: np.ndarray) -> np.ndarray:
    share = together / together.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log2(share / (share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)))


def table(title: str, ngrams: Sequence[Association], measure: str = "pmi") -> Table:
    """The strongest n-grams of each label, by ``pmi`` or ``lmi``."""
    ordered = sorted(ngrams, key=lambda item: (item.label, -getattr(item, measure)))
    rows = [
        (label, item.ngram, f"{getattr(item, measure):.4f}", percent(item.share))
        for label, items in groupby(ordered, key=lambda item: item.label)
        for item in islice(items, PER_LABEL)
    ]
    return Table(title, ("label", "n-gram", measure.upper(), "% of its texts"), rows, texts=2)


def main() -> None:
    """Parses the arguments, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", help="a corpus of `cdconv corpora`")
    parser.add_argument("--source", help="its local copy")
    parser.add_argument("--config", help="by default the first one")
    parser.add_argument("--split", default="train")
    parser.add_argument("--measure", choices=("pmi", "lmi"), default="pmi")
    options = parser.parse_args()
    corpus = corpora.find(options.corpus)
    rows = read_split(corpus, options.source or corpora.local_copy(corpus), options.config, options.split).rows
    rows = [row for row in rows if row.label is not None]
    texts, labels = [row.hypothesis or row.reply for row in rows], [str(row.label) for row in rows]
    characters = sum(map(is_chinese, texts)) * 2 > len(texts)
    found = associations(texts, labels, characters=characters)
    print(table(f"{corpus.title}, {options.split} split", found, options.measure).markdown())


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"artefacts: {error}")
