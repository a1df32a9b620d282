"""Judging reads the words of a text, without markup, stickers and invisible characters."""

import pytest
from cases.wrapped import FORMS, MORE_FORMS
from helpers.chats import TEXTS, chat
from hypothesis import given
from hypothesis import strategies as st

from contradiction.markup import plain, words


@pytest.mark.parametrize("reply", ["我没养过猫呀", "会，开了十年。", "I have no cat.", "我今年18"])
def test_every_form_of_a_reply_has_the_same_words(reply):
    read = {name: plain(form(reply)) for name, form in (FORMS | MORE_FORMS).items()}
    assert {name: text for name, text in read.items() if text != reply} == {}


def verdicts_of(detector, texts):
    """The verdicts on the last of some texts, by each method of a detector."""
    messages, monitor = chat(*texts), detector.monitor()
    followed = [monitor.add(message) for message in messages][-1]
    ranked = detector.rerank(messages[:-1], texts[-1:])[0].verdict
    return followed, detector(messages), ranked, detector.check([texts[1]], texts[-1])


@pytest.mark.parametrize("form", ["<p>{}</p>", "{}<|im_end|>", "&nbsp;{}", "*微笑着看向你* {}", "小智：{}"])
def test_a_form_changes_no_verdict_of_either_side(detector, form):
    wrapped = verdicts_of(detector, [form.format(text) for text in TEXTS])
    for verdict, other in zip(verdicts_of(detector, TEXTS), wrapped, strict=True):
        assert (other.label, other.evidence, other.checked) == (verdict.label, verdict.evidence, verdict.checked)
        assert other.scores == pytest.approx(verdict.scores, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "3 < 5", "a<b", "如果a<b>c呢", "List<str>", "《书名》", "【笑傲江湖】", "[我]", "[我]没养过", "(2021)",
        "我养猫（两只）", "（我没养过猫呀）", "他（笑着）说", "1.5 米", "1. 5米", "-5度", "3、4个",
        "一、二都行", "8:30起床", "99.9元", "24℃", "5㎡", "https://a.cn/b?c=d&copy=1", "R&B", "1+1=2",
        "2*3*4=24", "2 * 3", "长*宽*高", "x = a[1]", "结果是[1, 2, 3]", "C++", "好啊~~你呢~~", "他说：我养猫",
        "地址：北京", "小时候：我养猫", "#话题#", "！！！", "a_b_c", "我住在[城市]", "> 5", "20<30", "1<a>2",
        "C:\\new", "m²", "[name]", "（见下）", "他:",
    ],
)  # fmt: skip
def test_what_may_be_content_stays(text):
    assert plain(text) == text


def test_marks_go_and_what_they_mark_stays():
    written = {
        "`<br>` 是换行标签": "<br> 是换行标签",
        "```python\nprint('<p>')\n```": "print('<p>')",
        "我*真的*没养过": "我真的没养过",
        "*养了一只橘猫*": "养了一只橘猫",
        "有2️⃣只": "有2只",
        "[文档](https://example.org)": "文档",
        "| 猫 | 两只 |\n|---|---|": "猫 \n 两只",
        "<p>你好</p><p>我养猫</p>": "你好\n\n我养猫",
        "我̶养̶猫̶": "我养猫",
    }
    assert {text: plain(text) for text in written} == written


MARKS = "<p> </p> ** * [ ] 微笑 ( ) ` &lt; &nbsp; | 😀 猫 小智：".split(" ") + ["\n", " ", "```\n", "1. ", "> "]


@given(st.lists(st.sampled_from(MARKS), max_size=12).map("".join))
def test_each_character_knows_its_place(text):
    extract = words(text)
    assert extract.text == plain(text) and len(extract.places) == len(extract.text)
    assert list(extract.places) == sorted(extract.places)
    for character, place in zip(extract.text, extract.places, strict=True):
        assert character == text[place] or character in "\n\xa0< "


@pytest.mark.parametrize(
    "piece", ["<", "[", "*微", "`", "(笑", "| ", "&", "<!--", "<style>", "> ", "1. ", "**", " ", "-", "😀", "【"]
)
def test_the_time_is_linear_in_the_length_of_a_text(piece):
    assert len(plain(piece * 20_000 + "好")) <= 20_000 * len(piece) + 1
