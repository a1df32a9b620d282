"""DialFact (Gupta et al., 2022): which replies can be verified, what their evidence is, and whether it supports them.

    .venv/bin/python -m experiments.dialfact FOLDER [--model NLI_MODEL] [--embedder ENCODER]

The baselines are fitted to the other folds of the same split; the claims of a chat are in one fold. The NLI model
verifies claims from their marked passages, and from the first passage of BM25. `cdconv evaluate MODEL dialfact`
verifies them from the marked passages alone.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from contradiction.data import corpora
from contradiction.data.corpora.corpus import Row, pair_texts, read_split
from contradiction.data.corpora.dialfact import OF_NLI, UNKNOWN
from contradiction.errors import InputError
from contradiction.evaluation.baselines import WORDS
from contradiction.evaluation.figures import wilson
from contradiction.inference.embedding import Embedder
from contradiction.io.tables import Table, percent, with_interval
from contradiction.methods.loading import load_classifier
from experiments import retrieval

FOLDS = 5


def scores(title: str, truth: Sequence[Any], predictions: Mapping[str, Sequence[Any]]) -> Table:
    """Accuracy and macro-F1 of each way to predict labels, with 95 % Wilson intervals of accuracy."""
    rows = []
    for name, predicted in predictions.items():
        accuracy = float(accuracy_score(truth, predicted))
        macro = f1_score(truth, predicted, average="macro", labels=sorted(set(truth)), zero_division=0)
        bounds = wilson(round(accuracy * len(truth)), len(truth))
        rows.append((name, f"{len(truth):,}", with_interval(accuracy, bounds), percent(float(macro))))
    return Table(title, ("by", "claims", "accuracy", "macro-F1"), rows)


def fitted(model: Any, inputs: Any, labels: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    """The label of each input by a model that was fitted to the chats of the other folds."""
    chats = [str(row.source) for row in rows]
    folds = min(FOLDS, len(set(chats)))
    if folds < 2 or min(Counter(labels).values()) < folds:
        raise InputError(f"{len(set(chats))} chats and the labels {dict(Counter(labels))} are too few for baselines")
    return list(cross_val_predict(model, inputs, labels, cv=GroupKFold(folds).split(inputs, labels, chats)))


def words() -> Any:
    """Logistic regression on n-grams of words."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **WORDS)
    return make_pipeline(vectorizer, LogisticRegression(class_weight="balanced", max_iter=300))


def verifiable(rows: Sequence[Row], nearest: retrieval.Nearest) -> Table:
    """Baselines of the question whether a claim can be verified."""
    truth = [bool(row.extra["verifiable"]) for row in rows]
    return scores("Is the claim verifiable? %", truth, {
        "the most frequent": [sum(truth) * 2 >= len(truth)] * len(truth),
        "overlap with the nearest passage": fitted(
            LogisticRegression(class_weight="balanced", max_iter=300), nearest.scores[:, :1], truth, rows),
        "n-grams of the claim": fitted(words(), [row.reply for row in rows], truth, rows),
    })  # fmt: skip


def verified(rows: Sequence[Row], first: Sequence[str], model: str | None) -> Table:
    """Baselines and an NLI model on the question whether the evidence supports a claim."""
    truth, marked = [str(row.label) for row in rows], [" ".join(row.extra["passages"]) for row in rows]
    claims = [row.reply for row in rows]
    predictions: dict[str, Sequence[str]] = {
        "the most frequent": [Counter(truth).most_common(1)[0][0]] * len(rows),
        "n-grams of the claim alone": fitted(words(), claims, truth, rows),
        "n-grams of claim and marked evidence": fitted(
            words(), [f"{claim} {text}" for claim, text in zip(claims, marked, strict=True)], truth, rows),
    }  # fmt: skip
    if model:
        classifier = load_classifier(model, view="nli")
        for name, evidence in (("marked evidence", marked), ("the first passage of BM25", first)):
            labels = classifier.classify([pair_texts(*texts) for texts in zip(evidence, claims, strict=True)])
            predictions[f"{model}, {name}"] = [
                OF_NLI[label.label] if text else UNKNOWN for label, text in zip(labels, evidence, strict=True)
            ]
    return scores("Is the claim supported or refuted? %", truth, predictions)


def main() -> None:
    """Parses the arguments, prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", help="the local copy of DialFact")
    parser.add_argument("--split", default="test")
    parser.add_argument("--model", help="folder or Hub id of an NLI model")
    parser.add_argument("--embedder", help="folder or Hub id of an encoder that searches the evidence, too")
    options = parser.parse_args()
    rows = read_split(corpora.find("dialfact"), options.source, "claims", options.split).rows
    passages, claims = retrieval.collect_passages(rows), [row.reply for row in rows]
    searches: dict[str, retrieval.Search] = {"TF-IDF": retrieval.tfidf, "BM25": retrieval.bm25}
    if options.embedder:
        searches["encoder"] = retrieval.bi_encoder(Embedder(options.embedder))
    nearest = {name: search(passages, claims) for name, search in searches.items()}
    first = [passages[ranking[0]] if len(ranking) else "" for ranking in nearest["BM25"].indices]
    found = {name: retrieval.recall(rows, passages, ranked.indices) for name, ranked in nearest.items()}
    for table in (verifiable(rows, nearest["TF-IDF"]), retrieval.table(found), verified(rows, first, options.model)):
        print(f"{table.title}\n\n{table.markdown()}\n")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"dialfact: {error}")
