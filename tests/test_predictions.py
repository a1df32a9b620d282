"""Predictions shared by concurrent requests: in turns, bounded, and isolated from failures."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from helpers import processes

from contradiction.inputs.views import CONVERSATION, MAX_TURNS, row_of
from contradiction.methods.base import Prediction
from contradiction.serving import predictions as joining
from contradiction.serving.predictions import (
    SLICE,
    BusyError,
    CallerGoneError,
    FailedError,
    JoinedPredictions,
    LateError,
    Ticket,
    TooLongError,
    serving,
)
from contradiction.settings import Limits


class Panic(BaseException):
    """The form in which a Rust panic reaches Python."""


class Slow:
    """Predicts once it is released, and remembers its batches."""

    columns, reads_chats, reads_turns = ("b2",), False, True

    def __init__(self, released=False):
        self.batches, self.go = [], threading.Event()
        if released:
            self.go.set()

    def predict(self, rows, **_):
        self.go.wait(10)
        self.batches.append([row["b2"] for row in rows])
        if any(row["b2"] == "bad" for row in rows):
            raise ValueError("bad")
        if any(row["b2"] == "panic" for row in rows):
            raise Panic
        return [Prediction({"none": float(len(row["b2"]))}, "none") for row in rows]


def ticket(seconds=30.0, cost=1_000_000, caller=""):
    return Ticket(until=time.monotonic() + seconds, cost=cost, caller=caller)


def ask(predictions, texts, own_ticket):
    rows = [text if isinstance(text, dict) else {"b2": text} for text in texts]
    with serving(own_ticket):
        return [prediction.scores["none"] for prediction in predictions(rows)]


def wait_for(condition):
    assert processes.wait_for(condition, seconds=10)


@contextmanager
def occupied(threads=3):
    """A predictor whose first pass runs until its event is set, its predictions, and threads."""
    slow = Slow()
    predictions = JoinedPredictions(slow)
    with ThreadPoolExecutor(threads) as pool:
        first = pool.submit(ask, predictions, ["first"], ticket())
        wait_for(lambda: predictions._thread and not predictions.waiting)
        yield slow, predictions, pool
        assert first.result() == [5.0]


def test_a_light_request_does_not_wait_for_heavy_ones():
    slow = Slow()
    predictions = JoinedPredictions(slow)
    with ThreadPoolExecutor(8) as pool:
        heavy = [pool.submit(ask, predictions, [f"{number}-{n}" for n in range(500)], ticket()) for number in range(6)]
        wait_for(lambda: predictions.waiting > 2500)
        light = pool.submit(ask, predictions, ["light"], ticket())
        wait_for(lambda: predictions.waiting == 3001 - 64)  # the first pass has begun
        slow.go.set()
        assert light.result() == [5.0]
        assert all(len(answer.result()) == 500 for answer in heavy)
    first = next(number for number, texts in enumerate(slow.batches) if "light" in texts)
    assert first <= 3
    assert len(slow.batches) >= 3000 // 64


@pytest.mark.parametrize(("requests", "rows"), [(150, 1), (16, 100)])
def test_a_caller_with_many_requests_delays_no_other(requests, rows):
    with occupied(requests + 2) as (slow, predictions, pool):
        many = [
            pool.submit(ask, predictions, [f"many-{number}-{n}" for n in range(rows)], ticket(caller="one"))
            for number in range(requests)
        ]
        wait_for(lambda: predictions.waiting == requests * rows)
        other = pool.submit(ask, predictions, [f"other-{n}" for n in range(29)], ticket(caller="other"))
        wait_for(lambda: predictions.waiting == requests * rows + 29)
        slow.go.set()
        assert all(len(answer.result()) == rows for answer in many) and len(other.result()) == 29
    last = max(number for number, texts in enumerate(slow.batches) if any(text.startswith("other") for text in texts))
    assert last <= 2


def test_an_abandoned_request_is_not_computed():
    abandoned, late = ticket(), ticket()
    with occupied() as (slow, predictions, pool):
        others = [
            pool.submit(ask, predictions, [f"{name}-{n}" for n in range(300)], ticket)
            for name, ticket in (("gone", abandoned), ("late", late))
        ]
        wait_for(lambda: predictions.waiting == 600)
        abandoned.cancelled, late.until = True, 0.0
        slow.go.set()
        for other, error in zip(others, (CallerGoneError, LateError), strict=True):
            with pytest.raises(error):
                other.result()
    assert slow.batches == [["first"]]


def test_a_failed_request_does_not_fail_others_in_its_pass():
    leaving = ticket()
    with occupied(4) as (slow, predictions, pool):
        predict = predictions._predict
        predictions._predict = lambda rows: setattr(leaving, "cancelled", True) or predict(rows)
        bad = pool.submit(ask, predictions, ["bad", "well"], ticket())
        good = pool.submit(ask, predictions, ["good", "well"], ticket())
        left = pool.submit(ask, predictions, ["left"], leaving)
        wait_for(lambda: predictions.waiting == 5)
        slow.go.set()
        assert good.result() == [4.0, 4.0]
        assert isinstance(left.exception(), CallerGoneError)
        with pytest.raises(FailedError) as failed:
            bad.result()
        assert isinstance(failed.value.__cause__, ValueError)
    assert slow.batches[1] == ["bad", "well", "good", "left"]  # they share a pass
    assert ["left"] not in slow.batches


def test_a_tokenizer_panic_ends_one_request_and_not_the_service():
    predictions = JoinedPredictions(Slow(released=True))
    with pytest.raises(FailedError) as failed:
        ask(predictions, ["panic"], ticket())
    assert isinstance(failed.value.__cause__, Panic)
    assert ask(predictions, ["good"], ticket()) == [4.0]


def test_a_request_times_out_even_while_its_pass_is_running():
    slow = Slow()
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(ask, JoinedPredictions(slow), ["slow"], ticket(seconds=0.1))
        with pytest.raises(LateError, match="took too long"):
            request.result(5)  # the pass ends after ten seconds
        slow.go.set()


def test_cached_results_cost_a_request_nothing_and_by_default_all_turns_that_are_read_are_within_the_cost():
    predictions = JoinedPredictions(Slow(released=True))
    for turns in range(1, 20):
        own_ticket = ticket(cost=10)
        ask(predictions, [f"turn {n:04}" for n in range(turns)], own_ticket)
        assert own_ticket.spent == 9
    with pytest.raises(TooLongError, match="more than 10 characters"):
        ask(predictions, ["two", "new rows"], ticket(cost=10))
    rows = [f"{n:04}" + "x" * 2000 for n in range(MAX_TURNS)]
    assert len(ask(predictions, rows, ticket(cost=Limits().cost))) == MAX_TURNS


def test_more_requests_than_can_be_answered_soon_are_rejected(monkeypatch):
    monkeypatch.setattr(joining, "WAITING", 100)
    slow = Slow()
    predictions = JoinedPredictions(slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, predictions, [str(n) for n in range(200)], ticket())
        wait_for(lambda: 0 < predictions.waiting < 200)
        with pytest.raises(BusyError):
            ask(predictions, ["more"], ticket())
        slow.go.set()
        assert len(first.result()) == 200
    assert ask(predictions, ["more"], ticket()) == [4.0]


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(joining, "REMEMBERED", 10)
    predictions = JoinedPredictions(Slow(released=True))
    for number in range(50):
        ask(predictions, [str(number)], ticket())
    ask(predictions, ["49"], ticket())
    assert (len(predictions._known), predictions.rows, predictions.repeated) == (10, 50, 1)


def test_a_detector_of_whole_chats_reads_each_message_once_and_one_chat_in_a_pass():
    slow = Slow()
    slow.columns, slow.reads_chats, slow.reads_turns = CONVERSATION, True, False
    predictions = JoinedPredictions(slow)
    texts = [f"{n:02}" for n in range(80)]
    rows = [row_of(tuple(texts[: n - 3]), *texts[n - 3 : n]) for n in range(4, 81, 2)]
    own_ticket = ticket(cost=2 * len(texts))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, predictions, rows, own_ticket)
        wait_for(lambda: predictions.waiting == len(rows) - SLICE)
        other = pool.submit(ask, predictions, [row_of("", "", "", "other")], ticket())
        wait_for(lambda: predictions.waiting == len(rows) - SLICE + 1)
        slow.go.set()
        assert len(first.result()) == len(rows) and other.result() == [5.0]
    assert own_ticket.spent == 2 * len(texts)
    assert [len(batch) for batch in slow.batches] == [16, 16, 1, 7]
    slow.reads_turns = True  # a member of an ensemble reads each pair of a reply and an earlier turn
    with pytest.raises(TooLongError):
        ask(JoinedPredictions(slow), rows, ticket(cost=2 * len(texts)))
    own_ticket = ticket()
    ask(JoinedPredictions(slow), rows, own_ticket)
    assert own_ticket.spent == 8 * sum(range(1, 40))
