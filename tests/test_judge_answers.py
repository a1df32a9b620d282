"""The label in what language models answer. Two different labels are none, and thoughts do not count."""

import json

import pytest

from contradiction.labels import LABELS
from contradiction.methods.judge_answers import read_label

NAMES = LABELS["4-class"]
A, B = '{"label": "non-contradiction"}', '{"label": "history"}'


@pytest.mark.parametrize(
    "text",
    [
        B,
        f"```json\n{B}\n```",
        '{"result": {"label": "history"}}',
        '{"reason": "先说{猫}，后说没有", "label": "history"}',
        '{"label": "history", "reason": "回复是 {\\"label\\": \\"non-contradiction\\"}"}',
        '{"label": "history",}',
        "{'label': 'history'}",
        '{"label": "history", // it said the opposite\n "evidence": [1]}',
        '{"label": history}',
        '{"标签": "历史矛盾"}',
        "{“label”：“history”}",
        "The label is **history**.",
        "答案：历史矛盾",
        "The bot first says it has a cat. It has none. Answer: history",
        f"The answer is clear: it denies its cat. {B}",
        "<answer>history</answer>",
        "history\n\n理由：前后矛盾。",
    ],
)
def test_a_label_may_stand_in_json_in_a_statement_or_alone(text):
    assert read_label(text, NAMES) == "history"


@pytest.mark.parametrize(
    "thought",
    [
        "<think>{A}</think>",
        "{A}</think>",
        "<|channel|>analysis<|message|>maybe {A}<|end|><|start|>assistant<|channel|>final<|message|>",
        "【思考】也许 {A}【/思考】",
    ],
)
def test_what_a_model_thinks_does_not_count(thought):
    assert read_label(thought.replace("{A}", A) + B, NAMES) == "history"
    assert read_label(thought.replace("{A}", A), NAMES) is None
    assert read_label(f"{B}<think>or perhaps {A}", NAMES) == "history"


@pytest.mark.parametrize(
    "text",
    [
        f"{A} or {B}",
        f"{A}\n\n等等，我看错了。\n\n{B}",
        '{"label": "history", "label": "role-confusion"}',
        '{"label": "history or role-confusion"}',
        '{"label": "hist',
        '{"label": "矛盾"}',
        '{"label": "2. history"}',
        "No contradiction with the history.",
        "It is not history.",
        "history\nrole-confusion is also possible",
        "",
        "{" * 10_000 + '"label"' + "}" * 10_000,
        '{"label": ' * 10_000,
    ],
)
def test_two_labels_half_an_answer_and_an_unknown_label_are_none(text):
    assert read_label(text, NAMES) is None


@pytest.mark.parametrize(
    ("label", "names"),
    {
        "non-contradiction": ["non_contradiction", "no contradiction", "无矛盾", "不矛盾", 0, "0"],
        "intra-sentence": ["Intra Sentence", "intra-sentence contradiction", "句内矛盾", 1],
        "role-confusion": ["ROLE-CONFUSION", "角色混淆", "2. role-confusion", 2, "２"],
        "history": [" history. ", "<history>", "历史矛盾", "历史矛盾（history）", "3: history", 3],
    }.items(),
)
def test_a_label_has_its_usual_spellings_and_its_number(label, names):
    texts = [json.dumps({"label": name}, ensure_ascii=False) for name in names]
    assert [read_label(text, NAMES) for text in texts] == [label] * len(names)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Contradiction.", "contradiction"),
        ("No contradiction.", "non-contradiction"),
        ("There is no contradiction.", None),
        ("It is not contradictory.", None),
        ('{"label": "矛盾"}', "contradiction"),
        ('{"label": 1}', "contradiction"),
        ('{"label": 2}', None),
    ],
)
def test_an_answer_that_negates_a_label_is_not_that_label(text, label):
    assert read_label(text, LABELS["2-class"]) == label
