"""How a model judges the rows of an evaluation: a verdict on each, whatever the model reads."""

from collections.abc import Sequence
from itertools import islice

from contradiction.conversation import ASSISTANT, USER, read_turns
from contradiction.data.corpora.corpus import Row, pair_texts
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.sets import EvalSet
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import VIEWS
from contradiction.labels import CONTRADICTION, CONTRADICTIONS, LABELS, NON_CONTRADICTION, merge, merge_label
from contradiction.methods.base import Classification, Classifier
from contradiction.verdict import NO_ANSWER, Verdict

BATCH_SIZE = 64


def task_for(evalset: EvalSet, task: str, name: str) -> str:
    """The task in which rows and a model with the labels of ``task`` are compared.

    It is that of both if they have the same labels, and otherwise contradiction or not.

    Raises:
        InputError: the labels cannot be compared.
    """
    if task == evalset.task:
        return task
    # A data repo of CDConv has a config with two labels, to name.
    comparable = task in CONTRADICTIONS and (evalset.task in CONTRADICTIONS or evalset.task == "response")
    if comparable and (evalset.as_chats or evalset.task in ("2-class", "nli")):
        return evalset.task if evalset.task == "response" else "2-class"
    raise InputError(
        f"{name} predicts {', '.join(LABELS.get(task, (task,)))}; config {evalset.config!r} has other labels: "
        f"{', '.join(LABELS[evalset.task])}"
    )


def judge(
    detector: ContradictionDetector, evalset: EvalSet, task: str, on_batch: OnBatch | None = None
) -> tuple[list[Verdict], list[str] | None]:
    """The verdict on each row, and the most probable labels without the decision rule where these are known.

    A chat is judged as by ``detector.batch``, and rows of two turns or two texts by ``detector.classify``; both decide
    alike. A model of premise and hypothesis compares the reply with each earlier message of its speaker (structured,
    DECODE, Nie et al., 2021): the highest probability is that of the reply, and the messages from the threshold on are
    its evidence. A model of whole chats reads each chat as one text.

    Raises:
        InputError: the model does not read such rows.
    """
    columns, rows = tuple(detector.columns), evalset.rows
    if evalset.as_chats and columns == VIEWS["nli"]:
        return _structured(detector.classifier, rows, on_batch), None
    if evalset.as_chats and columns != VIEWS["chat"]:
        return detector.judge_last_replies(
            [read_turns(row.chat()) for row in rows], batch_size=BATCH_SIZE, on_batch=on_batch
        ), None
    texts = [row.whole() if evalset.as_chats else row.texts() for row in rows]
    classified = detector.classify(texts, batch_size=BATCH_SIZE, on_batch=on_batch)
    merged = task != detector.task and task == "2-class"
    return [_verdict(row, detector.task, merged) for row in classified], [row.argmax for row in classified]


def _verdict(row: Classification, task: str, merged: bool) -> Verdict:
    label = merge_label(row.label) if merged else row.label
    scores = merge(task, row.scores) if merged else row.scores
    probability = merge(task, row.scores)[CONTRADICTION] if task in CONTRADICTIONS else None
    return Verdict(label, scores[label], scores, probability, checked=row.truncation is None, reason=row.truncation)


def _structured(classifier: Classifier, rows: Sequence[Row], on_batch: OnBatch | None) -> list[Verdict]:
    """Verdicts of two classes; a reply whose speaker has said nothing before contradicts nothing."""
    classifier.check_contradictions()
    own = [[index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT] for row in rows]
    pairs = [_pair(row, index) for row, indices in zip(rows, own, strict=True) for index in indices]
    scores = iter(contradiction_scores(classifier, pairs, on_batch))
    verdicts = []
    for indices in own:
        of_chat = dict(zip(indices, islice(scores, len(indices)), strict=True))
        probability, threshold = max(of_chat.values(), default=0.0), classifier.rule.threshold
        verdicts.append(
            two_class_verdict(
                probability, threshold, tuple(index for index, score in of_chat.items() if score >= threshold)
            )
        )
    return verdicts


def two_class_verdict(probability: float, threshold: float = 0.5, evidence: tuple[int, ...] = ()) -> Verdict:
    """The verdict of two classes on a reply with this probability of a contradiction."""
    scores = {NON_CONTRADICTION: 1 - probability, CONTRADICTION: probability}
    label = CONTRADICTION if probability >= threshold else NON_CONTRADICTION
    return Verdict(label, scores[label], scores, probability, evidence if label == CONTRADICTION else ())


def contradiction_scores(
    classifier: Classifier, pairs: Sequence[dict[str, str]], on_batch: OnBatch | None = None
) -> list[float]:
    """The calibrated probability that each pair of texts, see ``pair_texts``, is a contradiction.

    Raises:
        InputError: the model does not tell contradictions from other replies.
    """
    classifier.check_contradictions()
    predictions = classifier.predict(pairs, on_batch=on_batch) if pairs else []
    return [
        merge(classifier.task, classifier.scores(prediction.probabilities))[CONTRADICTION] for prediction in predictions
    ]


def _pair(row: Row, index: int) -> dict[str, str]:
    def said_before(place: int) -> str:
        before = row.messages[place - 1] if place else None
        return before["content"] if before and before["role"] == USER else ""

    return pair_texts(row.messages[index]["content"], row.reply, said_before(index), said_before(len(row.messages)))


def was_judged(verdict: Verdict) -> bool:
    """Whether a verdict counts. That of a language model without a usable answer does, as no contradiction.

    Otherwise a judge could leave out hard chats.
    """
    return verdict.label is not None or verdict.reason == NO_ANSWER
