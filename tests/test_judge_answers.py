"""The label in what language models answer. Two different labels are none; thoughts and examples do not count."""

import json
import time
from pathlib import Path

import pytest

from contradiction.labels import LABELS
from contradiction.methods.judge_answers import read_label

NAMES = LABELS["4-class"]
CASES = Path(__file__).with_name("cases") / "judge_answers.jsonl"
NONE = "no usable answer"


def test_answers_that_models_have_given_have_the_label_that_a_person_reads():
    for case in map(json.loads, CASES.read_text(encoding="utf-8").splitlines()):
        allowed = [None if right == NONE else right for right in case["right"].split(", or ")]
        assert read_label(case["answer"], NAMES) in allowed, case["answer"]


def json_label(label):
    return json.dumps({"label": label}, ensure_ascii=False)


A, B = json_label("non-contradiction"), json_label("history")


@pytest.mark.parametrize(
    "text",
    [
        B,
        f"```json\n{B}\n```",
        f"{B} ",
        f"{B}\n\n{B}",
        f"[{B}]",
        '{"result": {"label": "history"}}',
        '{"reason": "先说{猫}，后说没有", "label": "history"}',
        '{"label": "history", "reason": "回复是 {\\"label\\": \\"non-contradiction\\"}"}',
        "The label is **history**.",
        "“History”。",
        "**Label:** `history`",
        "**Label**: history",
        "标签是 history",
        "答案：历史矛盾",
        "The bot first says it has a cat. It has none. Answer: history",
        "它先说养猫，后说没有养过。\n\nhistory",
        "<answer>history</answer>",
        "history\n\n理由：前后矛盾。",
        "History. The bot denied its cat.",
    ],
)
def test_a_label_may_stand_in_json_in_a_statement_or_alone(text):
    assert read_label(text, NAMES) == "history"


@pytest.mark.parametrize(
    "thought",
    [
        "<think>{A}</think>",
        "{A}</think>",
        "<think>\nmaybe {A}\n</think>\n\n",
        "<Thinking>{A}</Thinking>",
        "<mm:think>{A}</mm:think>\n",
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
        f"例如 {A}。本题：{B}",
        f"例如：\n{A}\n\n本题：\n{B}",
        f"For example, {A} would be right if it had no cat. Here it has one.\n\n{B}",
        f"如果没有猫就是 {A}，但是它有。\n```json\n{B}\n```",
        f"It could be {A}. The final answer is {B}",
        f"答案：{B}\n（例如 {A} 用于没有猫的对话）",
    ],
)
def test_the_answer_counts_and_not_what_was_considered_before_or_an_example(text):
    assert read_label(text, NAMES) == "history"


@pytest.mark.parametrize(
    "text",
    [
        f"{A} or {B}",
        f"{A}{B}",
        f"{A}\n{B}",
        f"{A}\n\n或者\n\n{B}",
        f"第一句：{A}\n第二句：{B}",
        f"不是{A}，而是{B}",
        f"{B} (not {A})",
        f"{A}\n\n等等，我看错了。\n\n{B}",
        f"标签：{A}\n标签：{B}",
        f"{B}\nLabel: non-contradiction",
        '{"label": "history", "label": "role-confusion"}',
        '{"label": ["history", "role-confusion"]}',
        '{"label": "history or role-confusion"}',
        '{"label": "maybe"}',
        f'{B}\n{{"label": "maybe"}}',
        '{"label": "history", "evidence": [1',
        '{"label": "hist',
        f"例如 {B}",
        '{"label": "矛盾"}',
        '{"label": null}',
        '{"label": true}',
        '{"label": 4}',
        '{"label": "2. history"}',
        "history or role-confusion",
        "No contradiction with the history.",
        "It is not history.",
        "history\nrole-confusion is also possible",
        "",
        "{" * 10_000 + '"label"' + "}" * 10_000,
        '{"a": ' * 10_000,
    ],
)
def test_two_labels_half_an_answer_and_an_unknown_label_are_none(text):
    start = time.monotonic()
    assert read_label(text, NAMES) is None
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    "text",
    [
        '{"label": "history",}',
        "{'label': 'history'}",
        '{"label": "history", "sure": True, "evidence": None}',
        '{"label": "history", // it said the opposite\n "evidence": [1]}',
        '{"label": "history", # it said the opposite\n "evidence": [1]}',
        '{"label": "history" /* not role-confusion */}',
        '{"label": "history", "source": \'http://example.org\',}',
        '{label: "history"}',
        '{"label": history}',
        '{\t"label": "history",\n}',
        '{"Label": "history",}',
        '{"标签": "历史矛盾"}',
        "{“label”：“history”}",
        '{"label"："history"，}',
    ],
)
def test_json_with_the_usual_slips_is_read(text):
    assert read_label(text, NAMES) == "history"
    assert read_label(f"本题：{text}", NAMES) == "history"


@pytest.mark.parametrize(
    ("label", "names"),
    {
        "non-contradiction": ["non_contradiction", "Non-Contradiction", "no contradiction", "无矛盾", "不矛盾", 0, "0"],
        "intra-sentence": ["intra_sentence", "Intra Sentence", "intra-sentence contradiction", "句内矛盾", 1],
        "role-confusion": [
            "role_confusion",
            "Role Confusion",
            "ROLE-CONFUSION",
            "角色混淆",
            "2. role-confusion",
            2,
            "２",
        ],
        "history": ["History", " history. ", "<history>", "历史矛盾", "历史矛盾（history）", "3: history", 3],
    }.items(),
)
def test_a_label_has_its_usual_spellings_and_its_number(label, names):
    assert [read_label(json_label(name), NAMES) for name in names] == [label] * len(names)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Contradiction.", "contradiction"),
        ("Non-contradiction.", "non-contradiction"),
        ("No contradiction.", "non-contradiction"),
        ("There is no contradiction.", None),
        ("It is not a contradiction.", "non-contradiction"),
        ("It is not contradictory.", None),
        ('{"label": "矛盾"}', "contradiction"),
        ('{"label": 1}', "contradiction"),
        ('{"label": 2}', None),
    ],
)
def test_an_answer_that_negates_a_label_is_not_that_label(text, label):
    assert read_label(text, LABELS["2-class"]) == label
