"""The parts of the demo page: its examples, its words, what it makes of a chat."""

import json
import re

import pytest
from chats import chat as messages
from serving import CHATS, COLUMNS, ROOT, ROWS

from contradiction import ContradictionDetector, Verdict
from contradiction.errors import InputError
from contradiction.inference.torch_backend import TorchBackend
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, STAGES
from contradiction.methods.checkpoint import CheckpointClassifier

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")


def test_the_replies_of_the_examples_are_what_their_names_say_and_of_all_categories(app):
    shown = app.examples()
    labels = {chat: LABELS["4-class"][row["label"]] for chat, row in zip(CHATS, ROWS, strict=True)}
    assert [len(replies) >= 3 for _, replies in shown] == [True] * 3
    for context, replies in shown:
        assert all(labels[*context, reply] == name for name, reply in replies.items())
    assert {name for _, replies in shown for name in replies} == set(LABELS["4-class"])


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "ENGLISH"),
        ("*", "ENGLISH"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "ENGLISH"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "CHINESE"),
        ("zh-TW;q=1", "CHINESE"),
        ("zh", "CHINESE"),
        ("zh-Hans-CN,en;q=0.9", "CHINESE"),
        ("ZH-hk", "CHINESE"),
        ("zha", "ENGLISH"),
    ],
)
def test_a_visitor_is_answered_in_the_language_that_comes_first(wording, header, language):
    import gradio

    request = gradio.Request(headers={} if header is None else {"accept-language": header})
    assert wording.words_of(request) is getattr(wording, language)


def test_both_languages_say_the_same_things(wording):
    assert list(wording.CHINESE) == list(wording.ENGLISH)
    for key, english in wording.ENGLISH.items():
        blanks = set(re.findall("{(.*?)}", wording.CHINESE[key])) - {"gloss"}
        assert blanks == set(re.findall("{(.*?)}", english)), key
    assert set(wording.GLOSSES) == {*LABELS["2-class"], *LABELS["4-class"]}


@pytest.mark.parametrize(
    "utterances",
    [
        ("你好", "你好", "再见", "？！"),
        ("你好", "你好", "再见", "hello"),
        ("你好", "你好", "再见", "龘"),
        ("你好", "hello", "再见", "你好"),
        ("你好", "龘", "再见", "你好"),
        ("好" * 2000, "hello", "再见", "你好"),
        ("你好", "你好", "再见", "好" * 2000),
        ("好" * 2000, "你好", "再见", "好" * 2000),
    ],
)
def test_what_was_not_read_is_said_in_chinese_too(wording, facade, utterances):
    said = wording.headline(facade(utterances), wording.CHINESE)
    assert any(words in said for words in ("无从判断", "并非全部"))
    assert not re.search("[A-Za-z]{2}|[;:,]", said)


@pytest.mark.parametrize(
    "text",
    [
        "小明：你好\n小红：你好\n小明：在吗\n小红：在",
        "你好\n用户：在吗\n机器人：在",
        '[{"role": 用户}]',
        '{"messages": 5}',
        '{"a": 1}',
        " ",
        "好" * 10_001,
        "\n".join("好" * 101),
    ],
)
def test_what_is_no_chat_is_said_in_chinese_too(judging, wording, text):
    with pytest.raises(InputError) as error:
        judging.pasted_chat(text, wording.CHINESE)
    assert not re.search("[A-Za-z]", str(error.value).replace("JSON", "").replace("messages", ""))


def test_the_card_of_the_space_prints_what_the_shipped_detector_says(wording, shipped_detector):
    text = (ROOT / "space" / "README.md").read_text(encoding="utf-8")
    utterances = json.loads(f"[{re.search(r'page.predict.(.*?), api_name', text, flags=re.DOTALL)[1]}]")
    assert f"print(headline)  # {wording.headline(shipped_detector(messages(*utterances)))}\n" in text


def test_the_judged_reply_and_what_it_contradicts_are_outlined_and_named(wording, bubbles):
    chat = {index: (each["role"], each["content"]) for index, each in enumerate(messages("a", "b", "<b>c</b>", "d"))}

    def shown(verdict):
        return bubbles.chat_html(chat, COLUMNS, bubbles.of_last(verdict, 3, wording.ENGLISH), wording.ENGLISH)

    history = shown(Verdict(HISTORY, 0.9, {HISTORY: 0.9}, evidence=(1,)))
    assert '<p class="bot clash"><small>b1 · bot · contradicted</small><span lang="zh-CN">b</span></p>' in history
    assert '<p class="bot clash"><small>b2 · bot · judged</small><span lang="zh-CN">d</span></p>' in history
    assert '<p class="user "><small>u2 · user</small><span lang="zh-CN">&lt;b&gt;c&lt;/b&gt;</span></p>' in history
    fine = shown(Verdict(NON_CONTRADICTION, 0.9, {NON_CONTRADICTION: 0.9}))
    assert "clash" not in fine and fine.count("fine") == 1
    in_part = Verdict(NON_CONTRADICTION, 0.9, {NON_CONTRADICTION: 0.9}, checked=False, reason="")
    assert "fine" not in shown(in_part)


def test_in_a_whole_chat_each_reply_says_what_it_is_judged_to_be(wording, bubbles):
    clash = Verdict(HISTORY, 0.6, {NON_CONTRADICTION: 0.3, INTRA: 0.1, HISTORY: 0.6}, 0.7, evidence=(1,), reply=(5,))
    fine = Verdict(NON_CONTRADICTION, 0.8, {NON_CONTRADICTION: 0.8, INTRA: 0.1, HISTORY: 0.1}, 0.2, reply=(3,))
    opening = Verdict(None, None, {}, checked=False, reason="messages[1] holds no words", reply=(1,))
    names = [str(number) for number in range(1, 7)]
    notes = bubbles.of_all([opening, fine, clash], names, wording.ENGLISH)
    assert [notes[index] for index in (1, 3, 5)] == [
        ("hit", "not judged · contradicted by 6"),
        ("", "contradiction 20%"),
        ("clash", "history, contradiction 70% · contradicts 2"),
    ]
    assert notes[0] == ("", "")
    said = wording.summary([opening, fine, clash], wording.ENGLISH, names)
    assert said == "### Contradictions: 1 of 2 judged replies\n\n1 not judged: 2 holds no words."
    assert wording.summary([opening], wording.ENGLISH, names).startswith("### No reply was judged\n")
    assert bubbles.of_all([clash], names, wording.CHINESE)[5] == ("clash", "历史矛盾，矛盾概率 70% · 与 2 矛盾")


def test_what_a_visitor_wrote_is_no_markdown_and_names_no_message(wording):
    reason = (
        "messages[0] holds content that is not text and was not read: 'messages[99] ![](http://192.0.2.1/x.png)<b>'"
    )
    verdict = Verdict(NON_CONTRADICTION, 0.9, {}, checked=False, reason=reason)
    said = wording.because(verdict, wording.ENGLISH, ["message 1"])
    assert said.startswith("message 1 holds ")
    assert not set("[]!<>") & set(said)


def test_a_threshold_calls_what_the_library_calls(judging, model, wording):
    chat = [text for each in CHATS[:6] for text in each]
    scanned = judging.scan(ContradictionDetector.from_pretrained(model), "\n".join(chat), wording.ENGLISH)
    roles = ("user", "assistant")
    spoken = [{"role": roles[index % 2], "content": text} for index, text in enumerate(chat)]
    for threshold in (0.0, 0.3, 0.6, 0.9):
        theirs = ContradictionDetector.from_pretrained(model, threshold=threshold).scan(spoken)
        for ours, verdict in zip(scanned.called(threshold), theirs, strict=True):
            assert (ours.label, ours.evidence, ours.reply) == (verdict.label, verdict.evidence, verdict.reply)
            assert ours.score == pytest.approx(verdict.score)


def test_the_chats_shown_contradict_themselves_where_the_shipped_detector_says_so(
    app, judging, shipped_detector, wording
):
    from contradiction.chats import pasted

    chats = app.CHATS.read_text(encoding="utf-8").strip().split("\n\n")
    found = [judging.scan(shipped_detector, each, wording.ENGLISH).called(app.THRESHOLD) for each in chats]
    called = [[verdict for verdict in verdicts if verdict.is_contradiction] for verdicts in found]
    assert [len(each) for each in called] == [1, 1, 1, 1, 2]  # the last one has a false alarm, and the page says so
    assert [len(pasted.read(each)) % 2 for each in chats] == [0] * 5


def test_every_label_of_a_detector_has_a_headline(wording):
    for label in {*LABELS["2-class"], *LABELS["4-class"]}:
        assert wording.headline(Verdict(label, 0.5, {label: 0.5})) == f"### {wording.ENGLISH[label]} (50%)"


def test_a_page_of_one_stage_names_its_labels_and_what_judges_no_reply_is_refused(app, random_model, wording):
    backend = TorchBackend.load(random_model("2-class"))
    backend.config = {**backend.config, "id2label": dict(enumerate(STAGES[HISTORY]))}
    stage = ContradictionDetector(CheckpointClassifier(backend, view=HISTORY, name="stage"))
    assert app.build(stage)
    assert HISTORY in wording.translations(stage.labels, stage.columns, "stage").translations["en"]["introduction"]
    assert wording.headline(Verdict("other", 0.9, {"other": 0.9, HISTORY: 0.1}))
    backend.config = {**backend.config, "id2label": dict(enumerate(LABELS["persona"]))}
    with pytest.raises(InputError, match="none of them is a contradiction"):
        app.build(ContradictionDetector(CheckpointClassifier(backend, view="flatten", name="persona")))
