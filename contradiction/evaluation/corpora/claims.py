"""Claims in chats: verifiable or not, their evidence, and whether it supports them. DialFact (Gupta et al., 2022)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contradiction.data.corpora.corpus import Row
from contradiction.data.corpora.dialfact import OF_NLI, UNKNOWN
from contradiction.evaluation.corpora import artefacts, retrieval
from contradiction.evaluation.corpora.report import WORDS, Report, Request, label_figures, score_table
from contradiction.evaluation.corpora.retrieval import Nearest
from contradiction.evaluation.corpora.structured import pair_row
from contradiction.labels import LABELS

if TYPE_CHECKING:
    from contradiction.methods.base import Classifier

FOLDS = 5
TASKS = ("nli", "verifiable")  # the tasks of the models that are scored
COLUMNS = {"n": "claims", "accuracy": "accuracy", "macro_f1": "macro-F1"}


def evaluate(request: Request) -> Report:
    """Scores verifiable claims, retrieval of evidence, and verification, each by baselines and by the request's models.

    These are a model of verifiable claims or of NLI, and an encoder that embeds texts.

    Baselines are fitted to the other folds of the same split; the claims of a chat are in one fold. A part with too few
    rows is left out, with a note.
    """
    report, artefact_tables = Report(), []
    results: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for split, rows in request.test_rows().items():
        passages = retrieval.collect_passages(rows)
        labels_by_name, answers_by_name = _model_labels(request, rows, passages), _model_answers(request, rows)
        if request.baselines:
            nearest = retrieval.tfidf(passages, [row.reply for row in rows])
            answers_by_name = {**_fitted(verifiable_claims(rows, nearest), split, report), **answers_by_name}
            labels_by_name = {**_fitted(_baseline_labels(rows), split, report), **labels_by_name}
            ngrams = artefacts.associations([row.reply for row in rows], [str(row.label) for row in rows], fewest=5)
            if ngrams:
                artefact_tables.append(artefacts.table(f"What claims give away, {split}", ngrams, measure="lmi"))
            else:
                report.notes.append(f"{split}: no artefacts: no n-gram stands in five claims and goes with a label")
        verifiable, labels = [bool(row.extra["verifiable"]) for row in rows], [str(row.label) for row in rows]
        rankings = _rankings(request, rows, passages, split, report)
        scored = {
            "verifiable": {name: label_figures(verifiable, answers) for name, answers in answers_by_name.items()},
            "retrieval": {name: retrieval.recall(rows, passages, rank.indices) for name, rank in rankings.items()},
            "verification": {name: label_figures(labels, predicted) for name, predicted in labels_by_name.items()},
        }
        for task, scores_by_name in scored.items():
            for name, scores in scores_by_name.items():
                results[task][name, split] = report.figures[f"{task}, {name}/{split}"] = scores
    if request.classifier and request.classifier.task not in TASKS:
        report.notes.append(
            f"{request.classifier.name} is not scored: its labels are {', '.join(request.classifier.labels)}; a model "
            f"with the labels {', '.join(OF_NLI)} verifies claims, and one with {', '.join(LABELS['verifiable'])} "
            "finds those that can be verified"
        )
    tables = [
        score_table("Is the claim verifiable? %", "by", results["verifiable"], COLUMNS),
        retrieval.table(results["retrieval"]),
        score_table("Is the claim supported or refuted? %", "by", results["verification"], COLUMNS),
    ]
    report.tables = [*(table for table in tables if table.rows), *artefact_tables]
    return report


def _fitted(labels: Mapping[str, Sequence[Any] | None], split: str, report: Report) -> dict[str, Sequence[Any]]:
    """The labels of the baselines that could be fitted, with a note on each of the others."""
    for name, predicted in labels.items():
        if predicted is None:
            report.notes.append(f"{split}: no {name}: there are too few chats, labels or passages to fit to")
    return {name: predicted for name, predicted in labels.items() if predicted is not None}


def _rankings(
    request: Request, rows: Sequence[Row], passages: Sequence[str], split: str, report: Report
) -> dict[str, Nearest]:
    searches: dict[str, retrieval.Search] = {}
    if request.baselines:
        searches = {"TF-IDF": retrieval.tfidf, "BM25": retrieval.bm25}
    if request.embedder:
        searches[request.embedder.short_name] = retrieval.bi_encoder(request.embedder)
    queries = {
        "the claim": [row.reply for row in rows],
        "the last message and the claim": [
            f"{row.messages[-1]['content'] if row.messages else ''} {row.reply}" for row in rows
        ],
    }
    if searches and not any(map(retrieval.has_evidence, rows)):
        report.notes.append(f"{split}: no retrieval: no claim is supported or refuted by a passage")
        return {}
    return {
        f"{name}, {query}": search(passages, texts)
        for name, search in searches.items()
        for query, texts in queries.items()
    }


def verifiable_claims(rows: Sequence[Row], nearest: Nearest) -> dict[str, list[bool] | None]:
    """Baseline -> whether it calls each claim verifiable; None where there are too few rows to fit to.

    The baselines: the most frequent answer, the overlap of the claim with the nearest passage, n-grams of the claim.
    """
    truth = [bool(row.extra["verifiable"]) for row in rows]
    overlap = nearest.scores[:, :1]
    return {
        "the most frequent": [sum(truth) * 2 >= len(truth)] * len(truth),
        "overlap with the nearest passage": _cross_predict(_linear(), overlap, truth, rows) if overlap.size else None,
        "n-grams of the claim": _cross_predict(_words(), [row.reply for row in rows], truth, rows),
    }


def _baseline_labels(rows: Sequence[Row]) -> dict[str, list[str] | None]:
    """Baseline -> the label of each claim; None where there are too few rows to fit to."""
    truth = [str(row.label) for row in rows]
    claims = [row.reply for row in rows]
    with_evidence = [f"{row.reply} {' '.join(row.extra['passages'])}" for row in rows]
    return {
        "the most frequent": [max(sorted(set(truth)), key=truth.count)] * len(rows),
        "n-grams of the claim alone": _cross_predict(_words(), claims, truth, rows),
        "n-grams of claim and marked evidence": _cross_predict(_words(), with_evidence, truth, rows),
    }


def _model_answers(request: Request, rows: Sequence[Row]) -> dict[str, Sequence[bool]]:
    """Whether a model of verifiable claims calls each claim verifiable."""
    if request.classifier is None or request.classifier.task != "verifiable":
        return {}
    predictions = request.classifier.classify([row.whole() for row in rows], on_batch=request.on_batch)
    verifiable = LABELS["verifiable"][True]
    return {request.model_name: [prediction.argmax == verifiable for prediction in predictions]}


def _model_labels(request: Request, rows: Sequence[Row], passages: Sequence[str]) -> dict[str, Sequence[str]]:
    """The label of each claim by an NLI model, from the marked passages and from the first passage of BM25."""
    if request.classifier is None or request.classifier.task != "nli":
        return {}
    name = request.model_name
    marked = [" ".join(row.extra["passages"]) for row in rows]
    nearest = retrieval.bm25(passages, [row.reply for row in rows])
    first = [passages[ranking[0]] if len(ranking) else "" for ranking in nearest.indices]
    return {
        f"{name}, marked evidence": _judged(request.classifier, request, marked, rows),
        f"{name}, retrieved evidence": _judged(request.classifier, request, first, rows),
    }


def _judged(classifier: "Classifier", request: Request, evidence: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The label of each claim by an NLI model, from its evidence; without evidence there is not enough information."""
    pairs = [pair_row(text, row.reply) for text, row in zip(evidence, rows, strict=True)]
    predictions = classifier.classify(pairs, on_batch=request.on_batch)
    return [
        OF_NLI[prediction.argmax] if text else UNKNOWN for text, prediction in zip(evidence, predictions, strict=True)
    ]


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight="balanced", max_iter=300)


def _words() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **WORDS), _linear())


def _cross_predict(model: Any, inputs: Any, labels: Sequence[Any], rows: Sequence[Row]) -> list[Any] | None:
    """The label of each input by a model fitted to the chats of the other folds; None where those are too few."""
    from sklearn.model_selection import GroupKFold, cross_val_predict

    chats = [str(row.source) for row in rows]
    if len(set(chats)) < 2:
        return None
    folds = list(GroupKFold(min(FOLDS, len(set(chats)))).split(inputs, labels, chats))
    if any(len({labels[index] for index in train}) < 2 for train, _ in folds):
        return None
    return list(cross_val_predict(model, inputs, labels, cv=folds))
