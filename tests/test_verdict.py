"""The verdict: what follows from its label and its probability."""

from dataclasses import asdict

import pytest

from contradiction.labels import CATEGORIES, CONTRADICTION, HISTORY, NON_CONTRADICTION
from contradiction.verdict import Verdict


def verdict(label, probability, **others):
    return Verdict(label, None, {}, probability, **others)


@pytest.mark.parametrize(
    ("label", "probability", "certainty"),
    [
        (HISTORY, 0.81, "sure"),
        (HISTORY, 0.79, "likely"),
        (HISTORY, 0.6, "likely"),
        (HISTORY, 0.59, "unsure"),
        (NON_CONTRADICTION, 0.19, "sure"),
        (NON_CONTRADICTION, 0.39, "likely"),
        (NON_CONTRADICTION, 0.41, "unsure"),
        (NON_CONTRADICTION, 0.85, "unsure"),  # below a high threshold: not called, and hardly fine
    ],
)
def test_how_sure_a_verdict_is_follows_from_the_probability_that_it_is_right(label, probability, certainty):
    assert verdict(label, probability).certainty == certainty


def test_what_was_read_in_part_is_never_sure():
    assert verdict(NON_CONTRADICTION, 0.01, checked=False, reason="cut").certainty == "unsure"


def test_what_was_not_judged_decides_nothing():
    found = Verdict(None, None, {}, checked=False, reason="empty")
    assert (found.contradiction, found.kind, found.certainty) == (None, None, None)


def test_a_kind_is_a_category_and_only_contradictions_have_one():
    assert [verdict(name, 0.9).kind for name in CATEGORIES] == list(CATEGORIES)
    two_class, none = verdict(CONTRADICTION, 0.9), verdict(NON_CONTRADICTION, 0.1)
    assert [(verdict.contradiction, verdict.kind) for verdict in (two_class, none)] == [(True, None), (False, None)]


def test_its_fields_are_those_that_people_read():
    names = {"label", "contradiction", "probability", "kind", "certainty", "evidence", "checked", "reason", "reply"}
    assert names <= set(asdict(verdict(HISTORY, 0.9)))
