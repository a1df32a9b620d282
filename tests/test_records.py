"""One record in the shapes of many tools: the same chat, or an error that names what is wrong."""

import json

import pytest
from helpers.chats import CHAT, TEXTS, chat, sharegpt
from helpers.growth import growth

from contradiction.chats.names import Speakers
from contradiction.chats.records import join_answers, read_chat, read_record
from contradiction.conversation import read_turns
from contradiction.errors import InputError

U1, B1, U2, B2 = TEXTS
ASKED, LAST, OTHER = CHAT[:3], CHAT[3], {"role": "assistant", "content": "它叫橘子"}


def texts_of(messages):
    return [text for turn in read_turns(messages) for text in (turn.user, turn.reply)]


def gemini(messages):
    names = {"user": "user", "assistant": "model"}
    return [{"role": names[one["role"]], "parts": [{"text": one["content"]}]} for one in messages]


def langchain(message):
    name = {"user": "HumanMessage", "assistant": "AIMessage"}[message["role"]]
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": message}


def item(message):
    return {"type": "message", **message, "content": [{"type": "output_text", "text": message["content"]}]}


CHOICES = {"choices": [{"index": 0, "message": {**LAST, "refusal": None}}]}
UNREAD = ("model_answer", "botReply", "模型回复", "expected_output")
SHAPES = {
    "messages": {"messages": CHAT},
    "list": CHAT,
    "reply": {"messages": ASKED, "reply": B2},
    "response": {"messages": ASKED, "response": LAST},
    "completion": {"prompt": ASKED, "completion": [LAST]},
    "choices": {"messages": ASKED, **CHOICES},
    "repeated": {"messages": CHAT, "choices": [{"message": {**LAST, "annotations": []}}], "reply": B2},
    "ShareGPT": {"conversations": [{**one, "from": one["from"].upper()} for one in sharegpt(CHAT)]},
    "ShareGPT in a tree": {"conversation": {"id": 3, "messages": sharegpt(CHAT)}},
    "Alpaca": {"instruction": U2, "input": "", "output": B2, "history": [[U1, B1]], "system": "你是一只猫"},
    "Alpaca, other case": {"Instruction": U2, "Output": B2, "History": [[U1, B1]]},
    "ms-swift": {"query": U2, "response": B2, "history": [[U1, B1]], "system": None, "session_id": "s"},
    "history of messages": {"question": U2, "answer": B2, "history": CHAT[:2]},
    "Chinese keys": {"问题": U2, "回答": B2, "history": json.dumps([[U1, B1]])},
    "Chinese messages": {"对话": [{"角色": {"user": "用户", "assistant": "客服"}[one["role"]], "内容": one["content"]}
                                for one in CHAT]},
    "numbered": {"u1": U1, "b1": B1, "u2": U2, "b2": B2, "model": "eva"},
    "numbered, other names": {"user_1": U1, "bot_1": B1, "user_2": U2, "bot_2": B2, "user_3": "", "bot_3": None},
    "log": {"request": {"model": "bot", "messages": ASKED}, "response": CHOICES},
    "log as text": {"request": json.dumps({"messages": ASKED}), "response": json.dumps(CHOICES)},
    "OpenAI batch": {"body": {"messages": ASKED}, "response": {"status_code": 200, "body": CHOICES}},
    "Responses": {"input": [*map(item, ASKED)], "output": [item(LAST)]},
    "Anthropic": {"request": {"messages": ASKED}, "response": {**LAST, "content": [{"type": "text", "text": B2}]}},
    "Gemini": {"contents": gemini(CHAT)},
    "Gemini log": {
        "request": {"contents": gemini(ASKED)}, "response": {"candidates": [{"content": gemini([LAST])[0]}]},
    },
    "LangChain": {"messages": [*map(langchain, CHAT)]},
    "LangChain dicts": [{"type": {"user": "human", "assistant": "ai"}[one["role"]], "data": one} for one in CHAT],
    "LangSmith": {"inputs": {"messages": ASKED}, "outputs": {"output": B2}},
    "ChatGPT's export": [
        {"author": {"role": one["role"]}, "content": {"content_type": "text", "parts": [one["content"]]}}
        for one in CHAT
    ],
    "DeepEval": {"turns": json.dumps(CHAT), "scenario": "cats", "expected_outcome": "none"},
    "names": {"messages": [{"from": {"user": "小王", "assistant": "小助手"}[one["role"]], "text": [one["content"][:2],
              {"type": "bold", "text": one["content"][2:]}]} for one in CHAT]},
    "Telegram, joined": [{"type": "service", "actor": "小王", "action": "join", "text": ""}, *CHAT],
    "transcript in a cell": {"对话内容": f"用户：{U1}\n机器人：{B1}\n用户：{U2}\n机器人：{B2}"},
    "printed by Python": {"messages": str(CHAT)},
    "ChatML": {"prompt": f"<|im_start|>user\n{U1}<|im_end|>\n<|im_start|>assistant\n{B1}<|im_end|>\n<|im_start|>user\n"
               f"{U2}<|im_end|>\n<|im_start|>assistant\n", "completion": B2},
    "crossed": {"messages": ASKED, "reply": B2, "evidence": [1], "reply_clause": "没养过", "phenomenon": "negation"},
    "other keys": {
        "messages": CHAT, "response_time": "3 s", "output_tokens": 9, "reply_to": "m", "expected_output": "x",
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_the_same_chat(shape):
    own = Speakers(("小王",), ("小助手",))
    for record in (SHAPES[shape], json.loads(json.dumps(SHAPES[shape]))):
        read = read_chat(record if isinstance(record, list) else {"id": 7, **record}, own)
        assert texts_of(read.messages) == list(TEXTS)
        assert read.id == (None if isinstance(record, list) else 7)


@pytest.mark.parametrize(
    ("record", "answers"),
    [
        ({"messages": ASKED, "chosen": "它叫橘子", "rejected": B2}, ["chosen", "rejected"]),
        ({"conversations": sharegpt(ASKED), "chosen": sharegpt([OTHER])[0], "rejected": sharegpt([LAST])[0]},
         ["chosen", "rejected"]),
        ({"prompt": ASKED, "chosen": [OTHER], "rejected": [LAST]}, ["chosen", "rejected"]),
        ({"chosen": [*ASKED, OTHER], "rejected": CHAT}, ["chosen", "rejected"]),
        ({"chosen": f"\n\nHuman: {U1}\n\nAssistant: {B1}\n\nHuman: {U2}\n\nAssistant: 它叫橘子",
          "rejected": f"\n\nHuman: {U1}\n\nAssistant: {B1}\n\nHuman: {U2}\n\nAssistant: {B2}"}, ["chosen", "rejected"]),
        ({"messages": [*ASKED, OTHER], "rejected_response": B2}, ["chosen", "rejected_response"]),
        ({"messages": ASKED, "candidates": ["它叫橘子", B2]}, ["candidates[0]", "candidates[1]"]),
        ({"messages": ASKED, "choices": [{"message": OTHER}, {"message": LAST}]}, ["choices[0]", "choices[1]"]),
        ({"instruction": U2, "output": ["它叫橘子", B2], "history": [[U1, B1]]}, ["output[0]", "output[1]"]),
        ({"messages": ASKED, "answer": B2, "response": "它叫橘子"}, ["response", "answer"]),
    ],
)  # fmt: skip
def test_each_of_several_answers_is_a_chat_of_its_own(record, answers):
    one, other = read_record(record)
    assert [one.answer, other.answer] == answers
    assert texts_of(one.messages) == [U1, B1, U2, "它叫橘子"] and texts_of(other.messages) == list(TEXTS)
    with pytest.raises(InputError, match="2 answers"):
        read_chat(record)
    with pytest.raises(InputError, match="one label for 2 answers"):
        read_record({**record, "label": "history"})


def test_chats_that_begin_alike_are_compared_in_quadratic_time():
    def answered(size):
        return [{**ASKED[0]} for _ in range(size)], {f"a[{n}]": [{**OTHER, "content": f"{n}"}] for n in range(size)}

    assert len(join_answers(*answered(300))) == 300
    assert growth(lambda given: join_answers(*given), answered, 300) < 32, "the chats have 300 × 300 messages"


def test_an_instruction_and_its_input_are_one_message_and_an_empty_reply_is_one():
    assert read_chat({"instruction": "翻译", "input": "cat", "output": "猫"}).messages == chat("翻译\ncat", "猫")
    empty = {"role": "assistant", "content": ""}
    assert read_chat({"u1": U1, "b1": B1, "u2": U2, "b2": None}).messages == [*ASKED, empty]
    assert read_chat({"messages": ASKED, "reply": ""}).messages == [*ASKED, empty]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        *(({"messages": ASKED, name: B2}, f"'{name}' may hold the reply") for name in UNREAD),
        ({"messages": ASKED, "reply": None}, "reply is null"),
        ({"messages": ASKED, "choices": ["A", "B"]}, "choices is a list without a reply"),
        ({"messages": [{"role": "narrator", "content": ""}]}, r"messages\[0\]: role 'narrator' .*--bot-name"),
        ({"messages": sharegpt(CHAT[:1]) + [{"from": "小王", "text": "嗯"}]}, r"messages\[1\]: from '小王'"),
        ({"messages": [{**one, "timestamp": f"10:0{3 - n}"} for n, one in enumerate(CHAT)]}, "newest, by timestamp"),
        ({"query": U1, "response": B1, "session_id": "s"}, "session_id but no history"),
        ({"query": U2, "response": B2, "history": [[U1, None]]}, r"history\[0\]\[1\] is null"),
        ({"query": U2, "response": B2, "history": U1}, "history is text"),
        ({"instruction": U1, "input": 3, "output": B1}, "input is a number"),
        ({"Messages": CHAT, "messages": CHAT}, "Messages and messages are one name"),
        ({"messages": None}, "messages is null"),
        ({"messages": "你好"}, "messages: neither JSON"),
        ({"text": "", "lang": "zh"}, "the keys: text, lang; a chat must be"),
        ({"\ud800": 1}, r"the keys: \\ud800; a chat must be"),
        ({"custom_id": "1", "response": {"body": {"choices": [{"message": LAST}]}}}, "the keys: custom_id, response"),
    ],
)  # fmt: skip
def test_a_record_that_lacks_its_reply_or_its_chat_is_refused_by_name(record, message):
    with pytest.raises(InputError, match=message):
        read_record(record)


def test_a_name_cannot_be_on_both_sides():
    with pytest.raises(InputError, match="小王"):
        Speakers(("小王",), ("小王 ",))
