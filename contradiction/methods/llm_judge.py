"""A language model as a judge: it reads the guidelines and a conversation, and answers with a label."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain, product, zip_longest
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from contradiction import guidelines
from contradiction.conversation import ASSISTANT, USER
from contradiction.decision import KEY as RULE
from contradiction.decision import Rule
from contradiction.errors import InputError, shown
from contradiction.inference.base import OnBatch, Scores
from contradiction.inputs.views import CONVERSATION, Row, messages_of
from contradiction.io.endpoint import KEY, URL, Answer, Endpoint, NoAnswerError, RefusedError, in_threads, repeated
from contradiction.io.files import read_json
from contradiction.io.line_files import LineFile
from contradiction.labels import LABELS, NON_CONTRADICTION, merge_id
from contradiction.markup import plain
from contradiction.methods.base import Classifier, Prediction
from contradiction.methods.judge_answers import read_label
from contradiction.methods.loading import register
from contradiction.paths import SAMPLE
from contradiction.verdict import NO_ANSWER

ANSWERS = "answers.jsonl"
SMOOTHING = 0.1  # votes that each label has before the first answer
DOUBT = 0.49  # the probability of a contradiction, when a rule is fitted, where the model gave no usable answer
OF_ONE_ROW = (400, 413, 422)  # refusals that may concern one row alone
REFUSALS = 20  # after so many of them without an answer, the fault lies in the requests
TOKEN_BYTES = 3  # of a Chinese character, which is about one token
ANSWER_TOKENS = 10  # of an answer with a label alone, about
COST = ("prompt_tokens", "completion_tokens", "seconds")  # of an answer
# Called with an estimate before requests are sent; an error that it raises stops them. The command line asks its user.
BEFORE_REQUESTS: ContextVar[Callable[[dict[str, Any]], Any]] = ContextVar("before_requests", default=lambda _: None)


@dataclass(frozen=True)
class JudgeOptions:
    """What the file ``judge.json`` of a judge says.

    Attributes:
        model: the name of the model at the endpoint.
        task: the labels: ``4-class`` or ``2-class``.
        language: of the guidelines: ``zh`` or ``en``.
        shots: how many labelled examples of the embedded sample the model is shown.
        votes: how often it is asked about each reply; the probability of a label is its share of the votes.
        temperature: of the answers; by default 0 for one vote, and 0.7 for several.
        max_tokens: the maximum number of tokens of an answer; by default the endpoint's own limit.
        concurrency: requests at a time.
        timeout: the maximum number of seconds for an answer.
        attempts: how often a request is sent at most.
        prices: the price of a million tokens, ``input`` and ``output``, with which evaluations show the cost.
        extra: further keys of each request, as the server wants them.
    """

    model: str
    task: Literal["4-class", "2-class"] = "4-class"
    language: Literal["zh", "en"] = "zh"
    shots: Annotated[int, Field(ge=0)] = 0
    votes: Annotated[int, Field(ge=1)] = 1
    temperature: float | None = None
    max_tokens: int | None = None
    concurrency: Annotated[int, Field(ge=1)] = 8
    timeout: Annotated[float, Field(gt=0, le=1e6)] = 60.0
    attempts: Annotated[int, Field(ge=1)] = 5
    prices: Mapping[Literal["input", "output"], float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    __pydantic_config__ = ConfigDict(extra="forbid")

    @classmethod
    def load(cls, file: Path) -> Self:
        """Reads the file; raises InputError for an unknown key, and for a value that is not allowed."""
        values = {name: value for name, value in read_json(file).items() if name != RULE}
        try:
            options = TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            first: Any = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(
                f"{file}: {place}: {first['msg'].lower()}; the options are {', '.join(cls.__dataclass_fields__)}, and "
                f"${URL} and ${KEY} hold the address and the key"
            ) from None
        if reserved := sorted(options.extra.keys() & {"model", "messages", "stream", "response_format"}):
            raise InputError(f"{file}: extra holds {reserved[0]!r}, which the judge sets itself")
        return options


@register
class LLMJudge(Classifier):
    """A language model behind an OpenAI-compatible endpoint; ``$OPENAI_BASE_URL`` holds its address.

    Answers are kept in the file ``answers.jsonl`` of the folder, so an evaluation that was killed continues where it
    stopped, and equal rows are asked about once.
    """

    MARKER = "judge.json"
    chinese_only = False

    def __init__(self, options: JudgeOptions, folder: Path, rule: Rule | None = None) -> None:
        super().__init__(LABELS[options.task], CONVERSATION, str(folder), rule)
        self.options = options
        self._endpoint = Endpoint(options.model, timeout=options.timeout, options=self._parameters())
        self._plain = False  # whether the endpoint has refused a schema for its answers
        self._answers_come = False
        self._refusals: list[RefusedError] = []
        self._seconds: list[float] = []
        self._counts: Counter[str] = Counter()
        self._opening = _opening_messages(options)
        wrong = "not an answer that this judge kept"
        self._file = LineFile(folder / ANSWERS, itemgetter("key", "label", *COST), wrong, durable=True)
        # The label and the cost of each answer that the folder holds, by :meth:`_key`.
        self._known: dict[str, tuple[str, Answer]] = {}
        for row in self._file.keep():
            self._known[row["key"]] = row["label"], Answer("", **{name: row[name] for name in COST})
        self._lock = Lock()  # several threads may judge

    @classmethod
    def load(cls, folder: str | Path, **options: Any) -> Self:
        """Loads a judge; the options of encoders do not apply. See :meth:`Classifier.load`."""
        folder = Path(folder)
        cls.check_folder(folder)
        return cls(JudgeOptions.load(folder / cls.MARKER), folder, Rule.load(folder / cls.MARKER))

    @classmethod
    def identity(cls, folder: Path) -> list[bytes]:
        """What the judge is asked to do."""
        values = {name: value for name, value in cls.describe(folder).items() if name != RULE}
        return [json.dumps(values, sort_keys=True).encode()]

    def usage(self) -> dict[str, Any]:
        """The cost of the rows so far, including rows that were answered from the file.

        Returns:
            answers, cached (how many of them were known), unusable (answers without a label), prompt_tokens,
            completion_tokens, seconds (the mean of an answer), slow_seconds (95 % of the answers are faster), and cost,
            None without prices.
        """
        counts, seconds = self._counts, np.array(self._seconds)
        read, written = counts["prompt_tokens"], counts["completion_tokens"]
        return {
            "answers": len(seconds),
            "cached": counts["cached"],
            "unusable": counts["unusable"],
            "prompt_tokens": read,
            "completion_tokens": written,
            "seconds": float(np.mean(seconds)) if len(seconds) else None,
            "slow_seconds": float(np.quantile(seconds, 0.95)) if len(seconds) else None,
            "cost": self._price(read, written),
        }

    def _estimate(self, texts: Sequence[str]) -> dict[str, Any]:
        """About what the answers to some questions will cost, without what the model thinks; no cost without prices."""
        opening = sum(len(message["content"].encode()) for message in self._opening)
        read = sum(opening + len(text.encode()) for text in texts) // TOKEN_BYTES
        return {"model": self.options.model, "requests": len(texts), "prompt_tokens": read,
                "cost": self._price(read, ANSWER_TOKENS * len(texts))}  # fmt: skip

    def _price(self, read: int, written: int) -> float | None:
        prices = self.options.prices
        return (read * prices.get("input", 0) + written * prices.get("output", 0)) / 1e6 if prices else None

    def predict(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Predicts the shares of votes, see :meth:`Classifier.predict`.

        Without a usable answer, a contradiction has the probability 0, whatever the decision rule says.
        """
        none = {name: float(name == NON_CONTRADICTION) for name in self.labels}
        predictions = super().predict(rows, batch_size=batch_size, on_batch=on_batch)
        unanswered = Prediction(none, NON_CONTRADICTION, NO_ANSWER)
        return [unanswered if one.truncation == NO_ANSWER else one for one in predictions]

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logarithms of the shares of votes, see :meth:`Classifier.score`.

        ``batch_size`` does not count: as many rows are asked about at a time as the options say.

        Raises:
            InputError: the endpoint refuses the requests, or fails again and again. The answers so far are kept.
        """
        texts = [_question(row) for row in rows]
        copies = Counter(texts)
        votes: dict[str, list[str]] = {text: [] for text in copies}
        waiting = Counter(dict.fromkeys(copies, self.options.votes))
        for text, label in self._ask_all(list(copies)):
            votes[text] += [label] if label else []
            waiting[text] -= 1
            if not waiting[text] and on_batch:
                on_batch(copies[text])
        logits = {text: self._logits(own) for text, own in votes.items()}
        return Scores(
            np.stack([logits[text] for text in texts]) if texts else np.zeros((0, len(self.labels))),
            [None if votes[text] else NO_ANSWER for text in texts],
        )

    def _logits(self, votes: Sequence[str]) -> np.ndarray:
        if not votes:
            others = len(self.labels) - 1
            return np.log([1 - DOUBT if name == NON_CONTRADICTION else DOUBT / others for name in self.labels])
        counts = Counter(votes)
        shares = np.array([counts[name] + SMOOTHING for name in self.labels])
        return np.log(shares / shares.sum())

    def _ask_all(self, texts: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Yields each text with the label of each vote, as the answers come; None for an answer without a label."""
        open_votes = []
        for text, vote in product(texts, range(self.options.votes)):
            key = self._key(text, vote)
            if key in self._known:
                self._counts["cached"] += 1
                self._answers_come = True
                yield text, self._counted(*self._known[key])
            else:
                open_votes.append((key, text))
        if open_votes:
            BEFORE_REQUESTS.get()(self._estimate([text for _, text in open_votes]))
        votes = in_threads(lambda vote: self._vote(vote[1]), open_votes, self.options.concurrency)
        for (key, text), (label, answer) in votes:
            if label:
                with self._lock:
                    self._known[key] = label, answer
                    self._file.add([{"key": key, "label": label, **{name: getattr(answer, name) for name in COST}}])
            yield text, self._counted(label, answer)
        if self._refusals and not self._answers_come:
            raise self._refusals[0]

    def _counted(self, label: str | None, answer: Answer) -> str | None:
        if label is None and not self._counts["unusable"]:
            found = answer.instead or shown(answer.text)
            logging.getLogger(__name__).warning("%s: no usable answer about a reply: %s", self.name, found)
        self._seconds.append(answer.seconds)
        self._counts.update(
            unusable=label is None, prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens
        )
        return label

    def _key(self, text: str, vote: int) -> str:
        """The key of an answer: a digest of all that it depends on."""
        parts = [self._endpoint.url, self.options.model, self._opening, self._parameters(), text, vote]
        return sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    def _parameters(self) -> dict[str, Any]:
        options = self.options
        temperature = (0.7 if options.votes > 1 else 0.0) if options.temperature is None else options.temperature
        limit = {} if options.max_tokens is None else {"max_tokens": options.max_tokens}
        return {"temperature": temperature, **limit, **options.extra}

    def _vote(self, text: str) -> tuple[str | None, Answer]:
        """The label of one vote; an answer without one is asked for once more."""
        messages = [*self._opening, {"role": USER, "content": text}]
        first = self._say(messages)
        if label := read_label(first.text, self.labels):
            return label, first
        second = self._say(messages)
        total = {name: getattr(first, name) + getattr(second, name) for name in COST}
        return read_label(second.text, self.labels), replace(second, **total)

    def _say(self, messages: Sequence[Mapping[str, str]]) -> Answer:
        schema = {"response_format": _schema(self.labels)}
        for options in ({},) if self._plain else (schema, {}):
            try:
                answer = repeated(partial(self._endpoint.ask, messages, **options), self.options.attempts)
            except NoAnswerError as error:
                raise InputError(f"{self._endpoint.url}: no answer by {self.options.model}: {error}") from None
            except RefusedError as error:
                refusal = error
                if error.status not in OF_ONE_ROW:
                    break
                # Some servers know no schemas. If the request is wrong in another way, the next is refused as well.
            else:
                self._answers_come, self._plain = True, not options
                return answer
        # Where other rows are answered, the fault lies in this one: it is too long, or a filter rejects it.
        self._refusals.append(refusal)
        if refusal.status not in OF_ONE_ROW or (not self._answers_come and len(self._refusals) >= REFUSALS):
            raise refusal
        return Answer("", instead=str(refusal))


def total_usage(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The sum of several :meth:`LLMJudge.usage`; None if there is none."""
    used = [usage for usage in usages if usage]
    if not used:
        return None
    counted = ("answers", "cached", "unusable", "prompt_tokens", "completion_tokens")
    counts = {name: sum(usage[name] for usage in used) for name in counted}
    costs = [usage["cost"] for usage in used]
    timed = [usage for usage in used if usage["answers"]]
    return {
        **counts,
        "seconds": sum(usage["answers"] * usage["seconds"] for usage in timed) / counts["answers"] if timed else None,
        # At least 95 % of all answers are faster than the slowest of these bounds.
        "slow_seconds": max((usage["slow_seconds"] for usage in timed), default=None),
        "cost": None if None in costs else sum(costs),
    }


def _schema(labels: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer, for servers that can enforce it."""
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": list(labels)}},
        "required": ["label"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


def _question(row: Row) -> str:
    """The question about a row: the messages before the reply, without empty ones, and the reply; without markup.

    Many servers take ``<|im_end|>`` and the like in a chat for a mark of their own, so none stands in the JSON.
    """
    *earlier, (_, reply) = messages_of(row)
    messages = [{"role": role, "content": content} for role, text in earlier if (content := plain(text))]
    question = json.dumps({"messages": messages, "reply": plain(reply)}, ensure_ascii=False)
    return question.replace("<", "\\u003c")


def _opening_messages(options: JudgeOptions) -> list[dict[str, str]]:
    """The instructions, then the examples as questions and answers."""
    messages = [{"role": "system", "content": guidelines.instructions(options.task, options.language)}]
    for row, label in _examples(options.task, options.shots) if options.shots else ():
        messages.append({"role": USER, "content": _question(row)})
        messages.append({"role": ASSISTANT, "content": json.dumps({"label": label})})
    return messages


def _examples(task: str, count: int) -> list[tuple[Row, str]]:
    """Training rows of the embedded sample with their labels, the labels in turn, each from another context."""
    from contradiction import cdconv

    by_label: dict[str, list[Row]] = {name: [] for name in LABELS[task]}
    contexts = set()
    for row in cdconv.official_split(cdconv.read_rows(SAMPLE))["train"]:
        label = LABELS[task][row["label"] if task == "4-class" else merge_id("4-class", row["label"])]
        if row["u1"] not in contexts and len(by_label[label]) * len(by_label) < count:
            contexts.add(row["u1"])
            by_label[label].append(row)
    in_turn = zip_longest(*([(row, label) for row in rows] for label, rows in by_label.items()))
    return list(filter(None, chain.from_iterable(in_turn)))[:count]
