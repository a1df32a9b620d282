"""The request for an evaluation of a corpus, and its result: tables for people, and the same figures for a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.data.corpora.corpus import Config, Corpus, Row, find_files, read_split, source_of
from contradiction.errors import InputError
from contradiction.evaluation.figures import wilson
from contradiction.inference.base import OnBatch
from contradiction.io.tables import Table, percent, with_interval

if TYPE_CHECKING:
    from contradiction.inference.embedding import Embedder
    from contradiction.methods.base import Classifier

WORDS = {"token_pattern": r"(?u)\b\w+\b"}  # for scikit-learn, whose default skips words of one letter
CHARACTERS = {"analyzer": "char"}  # for text without spaces

Results = Mapping[tuple[str, str], Mapping[str, Any]]  # the name of a scorer and a split -> the figures


@dataclass(frozen=True)
class Request:
    """The corpus, the models and the options of an evaluation.

    Attributes:
        corpus: a corpus of the registry.
        source: the local copy.
        config: a config of the corpus; None for its first.
        split: one split; None for every split with published labels except the training split.
        classifier: the model; None for the baselines alone.
        limit: the approximate number of rows of each split, see :func:`spread`; None for all.
        baselines: whether baselines are also scored, which takes a minute or two on the larger corpora.
        threshold: the probability above which a reply is called a contradiction, and a message evidence.
        embedder: an encoder that embeds texts, for the retrieval of evidence.
        on_batch: called with the number of rows done, after each forward pass.
    """

    corpus: Corpus
    source: str | Path | None
    config: str | None = None
    split: str | None = None
    classifier: "Classifier | None" = None
    limit: int | None = None
    baselines: bool = True
    threshold: float = 0.5
    embedder: "Embedder | None" = None
    on_batch: OnBatch | None = None

    @property
    def chosen(self) -> Config:
        """The config of the corpus."""
        return self.corpus.config(self.config)

    @property
    def model_name(self) -> str:
        """The name of the model in tables; empty without a model."""
        return Path(self.classifier.name).name if self.classifier else ""

    @property
    def in_characters(self) -> bool:
        """Whether n-grams are of characters, because the texts have no spaces between words."""
        return "zh" in self.corpus.languages

    @property
    def splits(self) -> list[str]:
        """The names of the splits to score."""
        place = source_of(self.corpus, self.source)
        here = [split for split in self.chosen.files if split != "train" and find_files(self.chosen, split, place)]
        return [self.split] if self.split else here or ["train"]

    @property
    def reason_not_fitted(self) -> str:
        """Why :meth:`train_rows` has no pairs, for a note."""
        if "train" in self.splits:
            return "the training split is scored, so nothing is fitted to it"
        return "there is no training split of pairs here"

    def test_rows(self) -> dict[str, list[Row]]:
        """The rows with a label of each split to score.

        Raises:
            InputError: there are none.
        """
        rows_by_split = {}
        for split in self.splits:
            all_rows = read_split(self.corpus, self.source, self.chosen.name, split).rows
            if labelled := [row for row in all_rows if row.label is not None]:
                rows_by_split[split] = spread(labelled, self.limit)
        if not rows_by_split:
            place = source_of(self.corpus, self.source)
            raise InputError(f"{place}: no row of {', '.join(self.splits)} has a label")
        return rows_by_split

    def train_rows(self, config: str | None = None) -> list[Row]:
        """The labelled rows of the training split.

        Empty where there is no file of it, where it is scored, or where baselines are not wanted.
        """
        chosen = self.corpus.config(config or self.config)
        if not self.baselines or "train" in self.splits:
            return []
        if not find_files(chosen, "train", source_of(self.corpus, self.source)):
            return []
        rows = read_split(self.corpus, self.source, chosen.name, "train").rows
        return [row for row in rows if row.label is not None]


@dataclass
class Report:
    """The result of an evaluation: figures of each scorer and split, the same as tables, and why parts were not run."""

    figures: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def label_figures(truth: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
    """``n``, ``accuracy`` with its 95 % Wilson ``interval``, and ``macro_f1`` of the labels that occur in the truth."""
    from sklearn.metrics import f1_score

    right = sum(a == b for a, b in zip(truth, predicted, strict=True))
    macro = f1_score(truth, predicted, average="macro", labels=sorted(set(truth)), zero_division=0)
    return {
        "n": len(truth), "accuracy": right / len(truth), "interval": list(wilson(right, len(truth))),
        "macro_f1": float(macro),
    }  # fmt: skip


def score_table(title: str, scorer: str, results: Results, columns: Mapping[str, str]) -> Table:
    """A row for each scorer and split, and a column for each figure; ``columns`` are the figures and their headers."""
    rows = [(name, split, *(_cell(scores, key) for key in columns)) for (name, split), scores in results.items()]
    return Table(title, (scorer, "split", *columns.values()), rows, texts=2)


def _cell(scores: Mapping[str, Any], key: str) -> str:
    value = scores[key]
    if value is None:
        return ""
    if key == "accuracy":
        return with_interval(value, scores["interval"])
    if key == "interval":
        return " to ".join(map(percent, value))
    return f"{value:,}" if isinstance(value, int) else percent(value)


def spread(rows: list[Row], limit: int | None) -> list[Row]:
    """About ``limit`` rows, taken evenly over the split; whole sources are taken, so there may be more or fewer."""
    if limit is None or len(rows) <= limit:
        return rows
    sources = list(dict.fromkeys(row.source or row.id for row in rows))
    wanted = max(1, round(limit * len(sources) / len(rows)))
    kept = {sources[index] for index in np.linspace(0, len(sources) - 1, wanted).round().astype(int)}
    return [row for row in rows if (row.source or row.id) in kept]
