"""The parts of the demo page: its texts, its examples, and its handling of files and pasted chats."""

import asyncio
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow
import pytest
from helpers.chats import chat as messages
from helpers.chats import line, objects, write_jsonl
from pyarrow import parquet
from serving import CHATS

from contradiction import ContradictionDetector, cdconv
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import LABELS
from contradiction.serving.service import Service
from contradiction.settings import Limits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")


@pytest.fixture(scope="module")
def service(app, detector):
    return Service(detector)


def test_the_page_keeps_to_the_cores_that_it_may_use(app, monkeypatch):
    limit = Mock()
    monkeypatch.setattr(app, "use_allowed_cores", limit)
    monkeypatch.setattr(app, "serve", Mock(return_value=(Mock(), "")))
    app.launch(Mock())
    limit.assert_called_once_with()


# Words


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({}, "ENGLISH"),
        ({"accept-language": "en-US,en;q=0.9,zh-CN;q=0.8"}, "ENGLISH"),
        ({"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}, "CHINESE"),
        ({"accept-language": "zh-CN", "cookie": "cdconv-language=en"}, "ENGLISH"),
        ({"accept-language": "en", "cookie": "a=b; cdconv-language=zh"}, "CHINESE"),
        ({"accept-language": "en", "cookie": "cdconv-language=<script>"}, "ENGLISH"),
    ],
)
def test_the_page_uses_the_chosen_or_else_the_preferred_language(part, headers, language):
    import gradio
    from starlette.requests import Request

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    locales = part("locales")
    assert locales.words_of(gradio.Request(Request(scope))) is getattr(locales, language)


def test_both_languages_have_the_same_texts(part):
    locales = part("locales")
    assert list(locales.CHINESE) == list(locales.ENGLISH)
    for key, english in locales.ENGLISH.items():
        assert set(re.findall("{(.*?)}", locales.CHINESE[key])) == set(re.findall("{(.*?)}", english)), key


@pytest.mark.parametrize(
    "utterances",
    [
        ("你好", "你好", "再见", "？！"),
        ("你好", "你好", "再见", "hello"),
        ("你好", "你好", "再见", "龘"),
        ("你好", "hello", "再见", "你好"),
        ("你好", "你好", "再见", "好" * 2000),
    ],
)
def test_unread_text_is_reported_in_chinese_too(part, facade, utterances):
    reason = part("locales").in_words(facade(utterances).reason, part("locales").CHINESE)
    assert not re.search("[A-Za-z]{2}|[;,]", re.sub(r"messages\[\d\]", "", reason))


@pytest.mark.parametrize(
    "pasted",
    [
        "用户：你好\n机器人：在\nTom：嗯",
        "Tom 10:22\n你好\nAnna 10:23\n在\n用户：嗯",
        "Tom：你好\nAnna：在",
        "好\n用户：你好",
        '[{"role": "Tom", "content": "你好"}]',
        '{"a": 1}',
    ],
)
def test_a_pasted_text_that_is_no_chat_gets_advice_for_the_page_in_both_languages(app, part, pasted):
    error = app.read_pasted(pasted)["error"]
    assert "--" not in error
    assert "原因（英文）" not in part("locales").in_words(error, part("locales").CHINESE)


def test_a_message_without_a_translation_is_given_in_english_as_such(part):
    locales, unknown = part("locales"), "something that nobody has translated"
    for reason in (unknown, f"the reply holds no words; {unknown}"):
        assert locales.in_words(reason, locales.CHINESE) == locales.CHINESE["inEnglish"].format(reason=reason)
    known = "messages[2]: role 'bot'; allowed are user, assistant"
    shown = locales.in_words(known, locales.CHINESE)
    assert "'bot'" in shown and "allowed" not in shown
    assert locales.in_words(known, locales.ENGLISH) == known


# Examples


@pytest.fixture(scope="module")
def shipped():
    return ContradictionDetector.from_pretrained()


def test_the_shipped_detector_judges_both_replies_of_every_pair_right(part, shipped):
    pairs = part("locales").pairs()
    chats = [
        [*pair["messages"], {"role": "assistant", "content": pair[reply]}]
        for pair in pairs
        for reply in ("one", "other")
    ]
    found = [verdict.contradiction for verdict in shipped.batch(chats)]
    assert len(pairs) >= 5 and found == [True, False] * len(pairs)


def test_the_shipped_detector_judges_every_example_right(part, shipped):
    examples = part("locales").examples()
    wrong = []
    for example, verdicts in zip(examples, shipped.scan_batch([each["messages"] for each in examples]), strict=True):
        called = [verdict.reply[-1] for verdict in verdicts if verdict.contradiction]
        wanted = [] if example["contradicts"] is False else [example["contradicts"]]
        if called != wanted or (example["by"] == "category" and verdicts[-1].label != example["kind"]):
            wrong.append((example["title"], called, wanted, verdicts[-1].label))
    assert not wrong


def test_every_kind_has_an_example_and_a_name_in_both_languages(part):
    examples, locales = part("locales").examples(), part("locales")
    kinds = {by: {each["kind"] for each in examples if each["by"] == by} for by in ("category", "trigger", "persona")}
    assert kinds == {
        "category": set(LABELS["4-class"]),
        "trigger": set(cdconv.TRIGGERS.values()),
        "persona": set(LABELS["persona"]) - {"unrelated"},
    }
    for example in examples:
        assert {f"ex {example['kind']}", f"by {example['by']}"} <= set(locales.ENGLISH)
        assert example["by"] != "trigger" or len(example["title"]) == 2


# Visitors


@pytest.mark.parametrize(
    ("peer", "header", "visitor"),
    [
        ("10.16.3.80", "203.0.113.7", "203.0.113.7"),
        ("10.16.3.80", "198.51.100.1, 203.0.113.7", "203.0.113.7"),  # the visitor wrote the first one
        ("10.16.3.80", "203.0.113.7, 10.16.40.2", "203.0.113.7"),
        ("198.51.100.9", "203.0.113.7", "198.51.100.9"),
    ],
)
def test_on_the_hub_a_visitor_cannot_take_the_address_of_another(app, peer, header, visitor):
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    seen = []

    async def page(scope, receive, send):
        seen.append(scope["client"][0])

    scope = {"type": "http", "client": (peer, 1), "headers": [(b"x-forwarded-for", header.encode())]}
    asyncio.run(ProxyHeadersMiddleware(page, app.HUB_PROXIES)(scope, None, None))
    assert seen == [visitor]


# Files and pasted chats


def judged(part, service, path, content=None, words="ENGLISH"):
    """What the page shows of a file with this content."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    progress = []
    batch, locales = part("batch"), part("locales")
    *_, last = batch.judge_file(service, path, getattr(locales, words), progress.append)
    return *last, progress


@pytest.fixture(scope="module")
def kept():
    """JSON lines: three chats, one invalid line, and a chat that cannot be judged."""
    lines = [line(messages(*chat), id=f"c{n}") for n, chat in enumerate(CHATS[:3])]
    return "\n".join([*lines, "{bad", line(messages("你好", "？！"))])


def test_a_file_of_chats_becomes_a_table_and_a_file_of_verdicts(part, service, kept, tmp_path):
    summary, grouped, rows, out, progress = judged(part, service, tmp_path / "chats.jsonl", kept)
    expected = [verdict for chat in CHATS[:3] for verdict in service.detector.scan(messages(*chat))]
    contradictions = sum(bool(verdict.contradiction) for verdict in expected)
    # Six replies were read, none in part, one holds no words, and one line holds no chat.
    assert [int(number) for number in re.findall(r"\d+", summary)] == [4, 6, contradictions, 1, 1]
    # This model also judges first replies.
    assert [row[0] for row in rows] == ["c0", "c0", "c1", "c1", "c2", "c2", "4", "5"]
    assert [row[2] == "Contradiction" for row in rows[:6]] == [verdict.contradiction for verdict in expected]
    assert [row[2] for row in rows[6:]] == ["Not judged"] * 2
    assert "not JSON" in rows[6][6] and rows[7][6] == "the reply holds no words"
    assert sum(group == "contradictions" for group, _ in grouped) == contradictions
    assert progress[-1] == 1.0
    written = objects(Path(out))
    assert [answer["line"] for answer in written] == [1, 2, 3, 4, 5]
    assert "not JSON" in written[3]["error"]
    assert written[0]["verdicts"][1]["label"] == expected[1].label


@pytest.mark.parametrize(
    ("name", "text"),
    [("chats.csv", "u1,b1,u2,b2\n你养猫吗？,养了,叫什么？,没养"), ("chats.txt", "用户：你养猫吗？\n机器人：养了")],
)
@pytest.mark.parametrize(
    ("words", "advice"), [("ENGLISH", "not in UTF-8; save the file as UTF-8"), ("CHINESE", "请将文件另存为 UTF-8")]
)
def test_a_file_in_another_encoding_gets_advice_for_the_page(part, service, tmp_path, name, text, words, advice):
    path = tmp_path / name
    try:
        *_, rows, out, _ = judged(part, service, path, text.encode("gb18030"), words)
        said = rows[0][6]
    except InputError as error:
        locales = part("locales")
        said = part("batch")._with_reason("refused", error, str(path), getattr(locales, words))
    assert re.sub(r" \(from byte \d+ on\)", "", said).count(advice) == 1 and "--encoding" not in said


@pytest.mark.parametrize(("name", "content"), [("chats.pdf", b"%PDF"), ("chats.csv", "a,b\n1,2\n")])
def test_a_file_without_chats_gets_advice_for_the_page_in_both_languages(part, service, tmp_path, name, content):
    with pytest.raises(InputError) as error:
        judged(part, service, tmp_path / name, content)
    batch, locales = part("batch"), part("locales")
    english, chinese = (
        batch._with_reason("refused", error.value, str(tmp_path / name), words)
        for words in (locales.ENGLISH, locales.CHINESE)
    )
    assert "--" not in english and re.search(r"\w\.$", english)
    assert "原因（英文）" not in chinese


@pytest.mark.parametrize(("probability", "shown"), [(0.0021, "0.2 %"), (0.021, "2 %"), (None, "")])
def test_the_table_rounds_a_chance_as_the_chat_does(part, facade, probability, shown):
    verdict = replace(facade(CHATS[0]), probability=probability, evidence=())
    entry = SimpleNamespace(name="c", messages=messages(*CHATS[0]))
    assert part("batch").row_of(entry, verdict, part("locales").ENGLISH)[1][5] == shown


def test_a_file_with_too_many_chats_is_judged_partly_with_a_notice(part, service, tmp_path, monkeypatch):
    path, chat = tmp_path / "chats.jsonl", json.dumps(messages("你好", "你好"))
    monkeypatch.setattr(part("batch"), "CHATS", 20)
    summary = judged(part, service, path, "\n".join([chat] * 40))[0]
    assert summary.startswith("Chats: 20.") and "more than 20 chats" in summary
    summary = judged(part, service, path, "\n".join(["x", chat] * 20))[0]
    assert summary.startswith("Chats: 10.")
    assert "Lines that are no chat: 10" in summary and "more than 20 chats" in summary


@pytest.mark.parametrize(
    "cells",
    [
        {"messages": ["x" * 10**7]},  # compressed
        {"messages": ["x" * 10**5] * 100},  # the same text again and again, stored once
        {"messages": [[{"role": "user", "content": "x" * 10**5}] * 100]},
        {"messages": ["x"], "more": pyarrow.array([[("key", "x" * 10**5)] * 100], pyarrow.map_("string", "string"))},
        {"messages": ["x"], "more": [[None] * 3 * 10**6]},
    ],
)
def test_a_parquet_file_that_is_large_when_unpacked_is_rejected(part, tmp_path, cells):
    path = tmp_path / "chats.parquet"
    parquet.write_table(pyarrow.table(cells), path, compression="zstd")
    assert path.stat().st_size < 10**5
    with pytest.raises(InputError, match="larger than 5 MB") as error:
        judged(part, None, path)
    assert "解压后超过 5 MB" in part("locales").in_words(str(error.value), part("locales").CHINESE)


def test_an_excel_file_whose_cells_share_a_long_text_is_rejected(part, tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [["messages"], *[["x" * 30_000]] * 200]:
        book.active.append(row)
    book.save(tmp_path / "chats.xlsx")
    with pytest.raises(InputError, match="larger than 5 MB"):
        judged(part, None, tmp_path / "chats.xlsx")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl.gz", gzip.compress(b"x" * 6 * 10**6), "larger than 5 MB"),
        ("a.parquet", b"PAR1" * 10, "a.parquet: damaged"),
        ("a.xlsx", b"PAR1" * 10, "a.xlsx: damaged"),
    ],
)
def test_a_packed_file_that_is_large_or_damaged_is_rejected(part, tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        judged(part, None, tmp_path / name, content)


def test_a_chat_that_is_too_long_does_not_affect_the_others(part, detector, tmp_path):
    service = Service(detector, Limits(cost=100))
    chats = [CHATS[0], [f"{n}" + "好" * 40 for n in range(20)], CHATS[1]]
    content = "\n".join(json.dumps(messages(*chat)) for chat in chats)
    summary, grouped, rows, out, _ = judged(part, service, tmp_path / "chats.jsonl", content)
    assert summary.startswith("Chats: 3. Replies read completely: 4.")
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert rows[2][2:] == ["Not judged", "", "", "", part("locales").ENGLISH["tooLong"]]
    assert grouped[2][0] == "others"
    written = objects(Path(out))
    assert ["error" in path for path in written] == [False, True, False]


def test_a_model_that_fails_is_reported_beside_the_chat_without_its_files(part, detector, kept, tmp_path, monkeypatch):
    failure = InputError("/srv/judge/answers.jsonl: is read-only")
    monkeypatch.setattr(detector.classifier, "predict", Mock(side_effect=failure))
    *_, rows, out, _ = judged(part, Service(detector), tmp_path / "chats.jsonl", kept, "CHINESE")
    assert [row[0] for row in rows] == ["c0", "c1", "c2", "4", "5"] and "日志" in rows[0][6]
    assert "/srv" not in str(rows) + Path(out).read_text(encoding="utf-8")


def test_a_file_damaged_further_on_keeps_the_verdicts_before(part, service, tmp_path):
    lines = [",".join(CONVERSATION), *[",".join(CHATS[n]) for n in range(3)]]
    content = "\n".join(lines).encode() + b"\n\xff,a,b,c\n"
    summary, _, rows, out, _ = judged(part, service, tmp_path / "chats.csv", content)
    assert summary.startswith("Chats: 3.")
    assert "cannot be read further: chats.csv:5: not in UTF-8" in summary
    assert len(rows) == 6
    assert len(Path(out).read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "message", "chinese"),
    [(None, "choose it again", "重新选择"), (b"x" * 5_000_001, "larger than 5 MB", "文件超过 5 MB")],
)
def test_a_deleted_or_large_file_is_reported_in_the_language_of_the_visitor(
    part, service, tmp_path, content, message, chinese
):
    with pytest.raises(InputError, match=message) as error:
        judged(part, service, tmp_path / "chats.jsonl", content)
    assert chinese in part("locales").in_words(str(error.value), part("locales").CHINESE)


def test_replies_read_in_part_are_counted_apart_and_the_settings_of_the_visitor_count(part, service, tmp_path):
    batch, locales, path = part("batch"), part("locales"), tmp_path / "chats.jsonl"
    chats = [messages("你好", "你好", "你好", "好" * 2000), messages(*CHATS[0])]
    write_jsonl(path, chats)
    for threshold, counts in ((0, [2, 3, 3, 1, 1]), (100, [2, 3, 0, 1, 0])):
        settings = batch.settings_of(service, threshold, None)
        *_, last = batch.judge_file(service, path, locales.ENGLISH, lambda share: None, **settings)
        assert [int(number) for number in re.findall(r"\d+", last[0])] == counts


def test_an_analysis_is_shown_as_text_with_shares_in_percent_and_none_of_a_few_conversations(part, tmp_path):
    understand = part("understand")
    assert understand.analysis_html(tmp_path) is None
    kept = understand.analysis_html()
    name = next(iter(understand._read(understand.FOLDER / "tables" / "comparison.csv")))["name"]
    assert "cd-tiles" in kept
    # An analysis of another detector than the page's says so.
    assert (name + ", which is not") not in understand.analysis_html(detectors=[name])
    assert (name + ", which is not") in understand.analysis_html(detectors=["another"])
    (tmp_path / "tables").mkdir()
    table = "slice,n,macro_f1\n<script>,2332,0.5124\nfew,19,0.9876\n"
    (tmp_path / "tables" / "slices.csv").write_text(table, encoding="utf-8")
    shown = understand.analysis_html(tmp_path)
    assert "&lt;script&gt;" in shown and "<script>" not in shown
    assert [cell in shown for cell in ("51.2", "–", "98.8")] == [True, True, False]
