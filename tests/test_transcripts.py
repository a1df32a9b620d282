"""Transcripts, pasted chats, and files in other encodings than UTF-8."""

import json

import pytest
from helpers.chats import CHAT, TEXTS, chat, line, write_csv
from helpers.growth import growth

from contradiction.chats import messages, readers
from contradiction.chats.messages import read_lines, read_messages, read_transcript
from contradiction.chats.names import Speakers
from contradiction.chats.readers import read_pasted
from contradiction.conversation import spoken_messages
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION

TRANSCRIPT = f"""用户：{TEXTS[0]}
机器人：{TEXTS[1]}
user: {TEXTS[2]}
bot: {TEXTS[3]}

assistant: 您好
时间：全天
Bot：在的

系统：欢迎
顾客：你好
客服：在的
"""


def test_an_empty_line_ends_a_chat_and_a_line_without_a_speaker_continues_a_message(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text(TRANSCRIPT, encoding="utf-8-sig")
    first, second, third = readers.open_file(file)
    assert (first.number, first.messages) == (1, CHAT)
    replies = [{"role": "assistant", "content": text} for text in ("您好\n时间：全天", "在的")]
    assert (second.number, second.messages) == (6, replies)
    assert third.messages == [{"role": "system", "content": "欢迎"}, *chat("你好", "在的")]
    assert third.end == file.stat().st_size


def test_an_empty_line_within_a_reply_or_before_the_answer_ends_no_chat():
    for text, chats in {
        "用户：a\n机器人：b：\n\n时间：1\n\n2. b\n\n用户：c\n机器人：d": ["a b：\n时间：1\n2. b", "c d"],
        "用户：a\n\n机器人：b\n\nb\n\n用户：c\n\n机器人：d": ["a b\nb c d"],
        "用户：a\n\n机器人：b\n用户：c\n\n机器人：d\n\n机器人：e\n用户：f": ["a b c d", "e f"],
        "机器人：a\n用户：b\n\n机器人：c\n用户：d": ["a b", "c d"],
        "用户：a\n机器人：b\n\n1. c\n\n2. d\n\n用户：e\n机器人：f": ["a b\n1. c\n2. d", "e f"],
    }.items():
        read = [
            read_transcript(block) for _, block, _ in messages.split_chats((1, line, 1) for line in text.split("\n"))
        ]
        assert [" ".join(one["content"] for one in said) for said in read] == chats


def test_a_long_message_is_not_read_again_for_each_block_after_it(monkeypatch):
    read, heads_of = [], messages._heads_of
    monkeypatch.setattr(messages, "_heads_of", lambda text, names: read.append(len(text)) or heads_of(text, names))
    text = "\n\n".join(["用户：你好", *["一段"] * 200, *["机器人：好\n\n一段\n用户：那呢"] * 100])
    lines = [(number, line, number) for number, line in enumerate(text.split("\n"), 1)]
    [(_, chat_text, _)] = messages.split_chats(lines)
    assert chat_text == text.replace("\n\n", "\n") and sum(read) < 3 * len(text)


def test_an_export_of_qq_is_read_with_its_names():
    rule = "=" * 64
    head = ("消息记录（此消息记录为文本格式，不支持重新导入）", rule, "消息分组:我的好友", rule, "消息对象:小冰")
    said = "2023-05-01 10:22:33 我\n你养猫吗？\n\n2023-05-01 10:22:40 小冰<bing@qq.com>\n养了\n"
    text = "\n".join([*head, "", said])
    assert read_lines(text, Speakers(("我",), ("小冰",))) == chat("你养猫吗？", "养了")
    with pytest.raises(InputError, match="unknown speakers 我, 小冰"):
        read_lines(text)


@pytest.mark.parametrize(("user", "bot"), [("您说：", "ChatGPT 说："), ("You said:", "ChatGPT said:")])
def test_a_chat_that_was_copied_from_chatgpt_is_read(user, bot):
    assert read_lines(f"{user}\n你好\n{bot}\n你好！\n") == chat("你好", "你好！")
    quoted = read_lines("用户：他怎么说\n机器人：他回：\n您说：好")  # a text follows on the line
    assert quoted == chat("他怎么说", "他回：\n您说：好")


def test_a_notice_of_the_messenger_is_no_part_of_a_message():
    for notice in ("小助手撤回了一条消息", "你撤回了一条消息", '"小明" 拍了拍 "小助手"'):
        assert read_lines(f"用户：你好\n机器人：在的\n{notice}\n用户：好\n{notice}") == chat("你好", "在的", "好")
    for spoken in ("我拍了拍他的肩膀", "妈妈拍了拍宝宝", "我轻轻地拍了拍他的肩膀！"):
        read = read_lines(f"用户：你好\n机器人：刚才很开心\n{spoken}\n用户：好")
        assert read == chat("你好", f"刚才很开心\n{spoken}", "好")
    within = read_lines("用户：怎么撤回\n机器人：会显示\n小明撤回了一条消息\n就好了")
    assert within == chat("怎么撤回", "会显示\n小明撤回了一条消息\n就好了")


@pytest.mark.parametrize(
    "title", ["2024年5月2日", "2024年5月2日 星期四 10:22", "-----", "对话2", "对话2：", "# 对话 2", "== Chat 2 =="]
)
def test_a_title_above_a_chat_begins_no_message_and_ends_the_chat_above(title, tmp_path):
    first, second = chat("你好", "在的"), chat("我是女生", "好的")
    (tmp_path / "a.txt").write_text(f"用户：你好\n机器人：在的\n\n{title}\n用户：我是女生\n机器人：好的", "utf-8")
    assert [entry.messages for entry in readers.open_file(tmp_path / "a.txt")] == [first, second]
    assert read_lines(f"用户：你好\n机器人：在的\n{title}\n用户：好") == [*first, *chat("好")]


FORMS = (
    "用户10:22 你好\n机器人10:23 在的",
    "[2024-05-01 10:22:33] 用户：你好\n[2024-05-01 10:22:40] 机器人：在的",
    "[2024/5/1 上午10:22:33] Alice: 你好\n[2024/5/1 上午10:23:01] Max Bot: 在的",
    "Alice 2024-05-01 10:22:33\n你好\nMax Bot 2024-05-01 10:22:40\n在的",
    "2024-05-01 10:22:33 小王(12345)\n你好\n\n2024-05-01 10:22:40 小助手(678)\n在的",
    "小王, [2024/5/1 10:22]\n你好\n\n小助手, [2024/5/1 10:23]\n在的",
    "用户(10:22)：你好\n机器人（10:23）：在的",
    "用户：[10:22] 你好\n机器人：[10:23] 在的",
    "用户：你好 (10:22)\n机器人：在的 (10:23)",
    "用户：你好\n10:22\n机器人：在的\n—— 2024年5月1日 10:30 ——",
    "2024-05-01\n用户：你好\n机器人：在的", "用户：\n你好\n机器人：\n在的", "使用者：你好\n機器人：在的",
    "**用户：** 你好\n**机器人：** 在的", "### Human: 你好\n### Assistant: 在的", "1. 用户：你好\n2. 机器人：在的",
    "> 用户：你好\n> 机器人：在的", "👤 用户：你好\n🤖 机器人：在的", "【用户】你好\n【机器人】在的",
    "用户\t你好\n机器人\t在的", "用户：你好\n\n机器人：在的", "用户：你好\r机器人：在的",
    "<|im_start|>user\n你好<|im_end|>\n<|im_start|>assistant\n在的<|im_end|>",
)  # fmt: skip
OWN = Speakers(("Alice", "小王"), ("小助手", "Max Bot"))


@pytest.mark.parametrize("text", FORMS)
def test_speakers_have_many_forms_and_times_are_no_text(text, tmp_path):
    assert read_lines(text, OWN) == chat("你好", "在的")
    (tmp_path / "a.txt").write_bytes(text.encode())
    [entry] = readers.open_file(tmp_path / "a.txt", speakers=OWN)
    assert entry.messages == chat("你好", "在的")


@pytest.mark.parametrize(
    ("line", "stranger"),
    [
        ("小周：真的吗", "小周"), ("客服小李（工号12）：您好", "客服小李"),
        ("[10:24] 张三：我也在", "张三"), ("客服001：我是人工", "客服001"),
    ],
)  # fmt: skip
def test_a_third_speaker_is_no_part_of_a_reply(line, stranger):
    text = f"用户：你好\n机器人：在的\n{line}"
    with pytest.raises(InputError, match=f"{stranger} (.*; indent the line|and) .*--bot-name"):
        read_transcript(text)
    lines = f"用户：你好\n机器人：在的\n\n{line}\n机器人：好".split("\n")
    assert [number for number, _, _ in messages.split_chats((n, text, n) for n, text in enumerate(lines, 1))] == [1, 4]
    for named in (Speakers(bots=(stranger,)), Speakers(users=(stranger,))):
        assert len(read_transcript(text, named)) == 3
    with pytest.raises(InputError, match="--bot-name"):
        read_messages([{"role": role, "content": "x"} for role in ("用户", "机器人", stranger)])


@pytest.mark.parametrize(
    "more",
    [
        "时间：全天\n联系电话：123", "**口味**：辣", "1. 口味：辣\n- 环境：吵",
        "步骤：\n准备工作：\n洗菜", "它说：你好", "[微笑] 你好呀",
        "步骤1：准备\n步骤三：洗\n方案一：蒸\n周一：语文\n第1：好",
    ],
)  # fmt: skip
def test_a_line_that_only_looks_like_a_speaker_continues_the_reply(more):
    messages = read_transcript(f"用户：你好\n机器人：在的\n{more}\n用户：好")
    assert messages == chat("你好", f"在的\n{more}", "好")
    indented = read_transcript("用户：你好\n机器人：在的\n  小李：一班\n用户：好")
    assert indented == chat("你好", "在的\n小李：一班", "好")


@pytest.mark.parametrize(
    "text", ["你好{}呀", "10:22{}1", "[{}10:22", "用户：你好{}呀\n机器人：在的", "用户：a [{}x\n机器人：b [1"]
)
def test_a_long_run_of_spaces_is_read(text):
    # Where two parts of a pattern can share the spaces, this takes hours.
    assert read_lines(text.format(" " * 100_000))[0]["content"]
    assert read_lines("用户：你好" + "\n" * 100_000 + "您说：好")[0]["content"]  # nor the line breaks before a heading


def test_a_message_of_many_lines_is_read_in_linear_time():
    text, more = "用户：你好\n机器人：好", "\n在的" * 1000
    assert read_transcript(text + more) == chat("你好", "好" + more)
    assert growth(read_transcript, lambda size: text + ("\n" + "在" * 5000) * size, 500) < 8


def test_indented_lines_with_a_time_belong_to_the_reply():
    text = "[2024-05-01 10:22] 用户：今天呢\n[2024-05-01 10:23] 机器人：今天的安排：\n  [14:00] 开会\n  [16:00] 打球"
    assert read_lines(text) == chat("今天呢", "今天的安排：\n[14:00] 开会\n[16:00] 打球")


def test_a_notice_of_the_messenger_is_said_by_nobody():
    notice = "2024-05-01 10:23 小李邀请小王加入了群聊，请大家欢迎"
    text = f"2024-05-01 10:22 用户：你好\n{notice}\n2024-05-01 10:24 机器人：在的"
    assert spoken_messages(read_lines(text), instructions=True) == chat("你好", "在的")


def test_json_that_is_read_as_text_names_the_format(tmp_path):
    (tmp_path / "a.txt").write_text(line(), encoding="utf-8")
    with pytest.raises(InputError, match="its first line is JSON; --format jsonl reads"):
        list(readers.open_file(tmp_path / "a.txt"))


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "big5"])
def test_a_file_in_another_encoding_gives_the_same_chats(tmp_path, encoding):
    texts = ("你好", "在的", "再見", "不見")  # which each of these encodings can hold
    messages = chat(*texts)
    write_csv(tmp_path / "a.csv", CONVERSATION, [texts] * 2, encoding=encoding)
    (tmp_path / "a.jsonl").write_text(line(messages) + "\n" + line(messages), encoding=encoding)
    (tmp_path / "a.json").write_text(f"[{line(messages)},{line(messages)}]", encoding=encoding)
    block = "\n".join(f"{speaker}:{text}" for speaker, text in zip(["user", "bot"] * 2, texts, strict=True))
    (tmp_path / "a.txt").write_text(f"{block}\n\n{block}", encoding=encoding)
    for file in tmp_path.iterdir():
        chats = readers.open_file(file, None, encoding)
        entries = [*chats]
        assert [entry.messages for entry in entries] == [messages] * 2
        assert entries[-1].end == chats.total


def test_a_pipe_in_another_encoding_is_read_and_a_wrong_encoding_is_named(detect):
    content = (line() + "\n" + line(id="啊")).encode("gb18030")
    code, answers, _ = detect("--encoding", "gb18030", stdin=content)
    assert (code, answers[1]["id"]) == (0, "啊")
    code, answers, err = detect("--encoding", "ascii", stdin=b"{}\n\n" + content)
    assert (code, answers) == (2, [])
    assert err[-1] == "cdconv: <stdin>:3: not in ascii; --encoding names another one"
    assert "<stdin>:1: not in utf-16; " in detect("--encoding", "utf-16", stdin=content)[2][-1]  # no mark


def test_an_unknown_encoding_and_a_file_that_needs_one_are_errors_of_one_line(detect, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(line(), encoding="gb18030")
    assert "; save it as UTF-8, or name its encoding, for instance with --encoding gb18030" in detect(file)[2][0]
    for name in ("nonsense", "base64", "idna", ""):
        code, _, [message] = detect(file, "--encoding", name)
        assert (code, f"encoding {name!r}: is unknown" in message) == (2, True)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert "leave the encoding out" in detect(tmp_path / "a.parquet", "--encoding", "gb18030")[2][0]


def test_a_wrong_encoding_of_a_file_shows_before_anything_is_judged(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(f"{line()}\n".encode("gb18030") * 9 + b"\xff\xff")
    with pytest.raises(InputError, match=r"a.jsonl:10: not in gb18030"):
        readers.open_file(tmp_path / "a.jsonl", None, "gb18030")


def test_without_speakers_lines_alternate_and_empty_ones_are_skipped():
    assert read_pasted("\n 你好 \r\n\n在的\n").messages == chat("你好", "在的")


@pytest.mark.parametrize("line", ["他说：你好", "时间是 8:00", "about: no", "B：第二个", "[微笑] 你好", "[10:32] 在"])
def test_what_only_looks_like_a_speaker_or_like_json_is_text(line):
    assert read_pasted(f"选哪个？\n{line}").messages == chat("选哪个？", line)
    assert read_pasted(line).messages == chat(line)


def test_pasted_json_is_an_object_or_a_message_on_each_line():
    messages = chat("一行\u2028又一行\x85再一行", "好")
    lines = [json.dumps(message, ensure_ascii=False) for message in messages]
    for text in (json.dumps({"messages": messages}, indent=2), "\n".join(lines), "\r\n".join(lines)):
        assert read_pasted(f" {text}\n").messages == messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n　", "the chat is empty; it must be lines of text"),
        ("你好\n机器人：在的", "'你好' does not say who speaks"),
        ("A：你好\nB：在的\nA：嗯\nB：好", "unknown speakers A, B; write 用户： or 机器人："),
        ("小王 10:22\n你好\n小李 10:23\n在的", "unknown speakers 小王, 小李"),
        ('{"role": "user"}\n[', "not JSON"),
        ('{"text": "你好"}', "an object with the keys: text; a chat must be"),
    ],
)
def test_text_that_is_not_a_chat_is_reported(text, message):
    with pytest.raises(InputError) as error:
        read_pasted(text)
    assert str(error.value).startswith(message)
