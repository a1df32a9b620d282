"""Thoughts and calls of tools are not said to the user, whatever vendor marks them."""

import json
from pathlib import Path

import pytest
from helpers.chats import TEXTS, chat
from helpers.growth import growth

from contradiction import spoken
from contradiction.conversation import read_turns, spoken_messages
from contradiction.errors import InputError
from contradiction.markup import Extract
from contradiction.spoken import said

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>The user asks about cats.</think>\n\n我没养过猫呀", "我没养过猫呀"),
        ("用户问我养不养猫。</think>我没养过猫呀", "我没养过猫呀"),
        ("\n<think>一</think>\n<think></think>我没养过猫呀", "我没养过猫呀"),
        ("<think>一<think>二</think>三</think>我没养过猫呀", "我没养过猫呀"),
        ("好的。<Think>想想</Think>\n我没养过", "好的。我没养过"),
        ("好的<thinking>用户想知道我养不养</thinking>没养过", "好的没养过"),
        ("我没养过。<think>还要", "我没养过。"),
        ("<think>用户问我养不养猫，我应该说", ""),
        ("<mm:think>想</mm:think>没", "没"),
        ('<thought duration="3">想</thought>没', "没"),
        ("&lt;think&gt;想&lt;/think&gt;没", "没"),
        ("◁think▷想◁/think▷没", "没"),
        ("[THINK]想[/THINK]没", "没"),
        ("【思考】想【/思考】没", "没"),
        ("<|begin_of_thought|>想<|end_of_thought|>没", "没"),
        ("<|START_THINKING|>想<|END_THINKING|>没", "没"),
        ("<unused94>thought\n想<unused95>没", "没"),
        ('<details type="reasoning" done="true">\n<summary>Thought</summary>\n> 想\n</details>\n没', "没"),
        (
            "<|channel|>analysis<|message|>想<|end|><|start|>assistant<|channel|>final<|message|>没养过",
            "没养过",
        ),
        ("analysisUser asks.assistantfinal没养过", "没养过"),
        ("Thought: 想\nFinal Answer: 没", "没"),
        ("思考过程：想\n\n回答：没", "没"),
        ('没。\n<tool_call>\n{"name": "a"}\n</tool_call>', "没。\n"),
        ("<function=get>{}</function>没", "没"),
        ("<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>", ""),
        ('[TOOL_CALLS][{"name": "a"}]', ""),
        ("我没养过猫，<think>和</think>是标签", "我没养过猫，<think>和</think>是标签"),
        ("`</think>` 是标签", "`</think>` 是标签"),
        ("[思考]我想想", "[思考]我想想"),
        (" 我没养过猫呀", " 我没养过猫呀"),
    ],
)
def test_thoughts_and_calls_in_a_text_are_not_said(text, answer):
    extract = said(text)
    assert extract.text == answer
    assert "".join(text[place] for place in extract.places) == answer


@pytest.mark.parametrize("text", ["<thinking>猫？</thinking>我没养过猫呀", "<Think>我没", "想</think>我没养过猫呀"])
def test_what_is_not_said_is_not_judged(detector, text):
    reply = said(text).text
    thought, plain = (detector(chat(*TEXTS[:3], content)) for content in (text, reply))
    assert (thought, thought.checked) == (plain, bool(reply))
    [ranked] = detector.rerank(chat(*TEXTS[:3]), [text])
    assert (ranked.reply, ranked.verdict) == (text, plain)
    assert detector.check(TEXTS[1:2], text, TEXTS[2]) == detector.check(TEXTS[1:2], reply, TEXTS[2])


def test_only_the_assistant_thinks():
    assert read_turns(chat("<think>在吗</think>你好", "你好"))[0].user == "<think>在吗</think>你好"


CALL = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}
NOTHING_SAID = [
    *({"role": "assistant", "content": content, **CALL} for content in (None, "", [])),
    {"role": "assistant", "function_call": {"name": "cat", "arguments": "{}"}},
    {"role": "tool", "tool_call_id": "1", "content": {"cats": 1}},
    {"role": "function", "name": "cat", "content": None},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "猫？"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "橘子"}]},
    {"role": "assistant", "content": [{"text": "猫？", "thought": True}, {"functionCall": {"name": "a"}}]},
    {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "猫？"}}}]},
    {"role": "assistant", "content": None, "reasoning_content": "猫？"},
    {"role": "assistant", "reasoning": "猫？"},
    {"role": "assistant", "content": "<think>查一下</think>", "tool_calls": [{"id": "1"}]},
    {"role": "assistant", "content": "猫？", "metadata": {"title": "Thinking"}},
    {"role": "assistant", "content": "猫？", "channel": "analysis"},
    {"role": "observation", "content": "橘子"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "name": "a", "arguments": "{}"},
    {"type": "function_call_output", "output": "橘子"},
    {"type": "web_search_call", "status": "completed"},
]


@pytest.mark.parametrize("item", NOTHING_SAID, ids=lambda item: " ".join(item))
def test_a_message_that_says_nothing_changes_only_the_indices(detector, item):
    messages = chat(*TEXTS)
    verdict, plain = detector([*messages[:3], item, messages[3]]), detector(messages)
    assert (verdict.scores, verdict.evidence, verdict.checked) == (plain.scores, plain.evidence, True)
    assert verdict.reply == (4,)
    assert detector.monitor().add(item) is None
    assert spoken_messages([item, *messages]) == messages


def test_thoughts_and_calls_beside_an_answer_are_left_out_of_it():
    parts = [{"type": "thinking", "thinking": "猫？"}, {"type": "text", "text": "没有"}, {"text": "真的"}]
    message = {"role": "assistant", "content": parts, "reasoning_content": "猫？", "metadata": {"title": None}, **CALL}
    [turn] = read_turns([{"role": "user", "content": "你养猫吗？"}, message])
    assert (turn.reply, turn.unread) == ("没有\n真的", None)


@pytest.mark.parametrize(
    "answer",
    [
        {"content": None, "audio": {"id": "1", "transcript": "不能说"}},
        {"content": None, "refusal": "不能说"},
        {"content": [{"type": "refusal", "refusal": "不能说"}]},
        {"content": "不能说", "refusal": None},
    ],
)
def test_what_is_spoken_aloud_and_a_refusal_are_said(answer):
    asked = {"role": "user", "content": [{"type": "input_audio", "transcript": "你养猫吗？"}]}
    [turn] = read_turns([asked, {"role": "assistant", **answer}])
    assert (turn.user, turn.reply, turn.unread) == ("你养猫吗？", "不能说", None)


def test_an_item_of_an_unknown_type_is_refused_by_name():
    with pytest.raises(InputError, match=r"messages\[0\].*'message'.*'role'"):
        read_turns([{"type": "message", "content": "你好"}])


@pytest.mark.parametrize("name", ["thoughts", "gradio_thought", "responses_items"])
def test_of_real_chats_only_what_is_said_is_read(name):
    replies = {"thoughts": ["养了一只橘猫。", "它叫橘子。"]}.get(name, ["会，开了十年"])
    for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        turns = read_turns(messages)
        assert [turn.reply for turn in turns] == replies
        assert spoken_messages(messages) == chat(*(text for turn in turns for text in (turn.user, turn.reply)))


@pytest.mark.parametrize("text", ["[思考]" * 500, "，<think>很长很长的想法" * 500 + "</think>"])
def test_the_mark_that_ends_a_block_is_looked_for_once(text):
    begin, end = spoken._BLOCKS[0]
    looked = []

    class Counting:
        def search(self, text, place=0):
            looked.append(len(text) - place)
            return end.search(text, place)

    spoken._without_blocks(Extract.whole(text), begin, Counting())
    assert sum(looked) <= 2 * len(text)


@pytest.mark.parametrize("begin", ["", "<think>"])
def test_a_text_of_many_thoughts_is_read_in_linear_time(begin):
    piece = f"{begin}这个问题我想想看</think>{'好' * 20}。"
    assert said(piece * 2).text == "好" * 20 + "。" + ("好" * 20 + "。" if begin else "")
    assert growth(said, lambda size: piece * size, 4000) < 8
