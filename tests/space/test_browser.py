"""The demo page and that of the metric, as real processes, seen in a browser."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from serving import CHATS, COLUMNS, free_port, served

from contradiction import ContradictionDetector
from contradiction.labels import HISTORY, LABELS

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")]


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is absent")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """A fresh tab, which must not have spoken to another host nor complained by the end of the test."""
    tab = chromium.new_page(viewport={"width": 1280, "height": 900})
    tab.set_default_timeout(15_000)
    hosts, complaints = set(), []
    tab.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield tab
    tab.close()
    assert hosts - {None} == {"127.0.0.1"}  # None: data: URLs
    assert complaints == []


def box(tab, column):
    return tab.get_by_label(f"{column} · ")


def judge(tab, utterances):
    for column, text in zip(COLUMNS, utterances, strict=True):
        box(tab, column).fill(text)
    tab.get_by_role("button", name="Judge the last reply").click()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_visitor_fills_four_boxes_and_reads_the_verdict(tab, url, facade, wording, tmp_path, theme):
    from PIL import Image

    chat, verdict = next((chat, verdict) for chat in CHATS if (verdict := facade(chat)).label == HISTORY)
    tab.goto(f"{url}?__theme={theme}")
    judge(tab, chat)
    tab.locator("#verdict", has_text=wording.ENGLISH[HISTORY]).wait_for()
    assert f"({verdict.score:.0%})" in tab.locator("#verdict").inner_text()
    assert [text.split("\n")[-1] for text in tab.locator(".chat p").all_inner_texts()] == list(chat)
    assert tab.locator(".chat .clash small").all_inner_texts() == ["b1 · bot · contradicted", "b2 · bot · judged"]
    shown = tab.locator("#scores").inner_text()
    assert all(label in shown for label in LABELS["4-class"])
    shot = tmp_path / f"{theme}.png"
    tab.screenshot(path=shot)
    with Image.open(shot) as image:
        assert image.size == (1280, 900)
        assert len(image.convert("RGB").getcolors(maxcolors=1 << 20)) > 100


def test_a_click_on_an_example_fills_the_boxes_and_judges_it(tab, url, facade, app, wording):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(url)
    context, replies = app.examples()[1]
    for label, reply in replies.items():
        tab.get_by_role("button", name=f"{label}: {reply}").click()
        tab.locator(".chat p", has_text=reply).wait_for()
        assert [box(tab, column).input_value() for column in COLUMNS] == [*context, reply]
        assert wording.ENGLISH[facade((*context, reply)).label] in tab.locator("#verdict").inner_text()
    tab.wait_for_function("document.getElementById('verdict').getBoundingClientRect().top >= 0")  # scrolled to
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_markup_in_an_utterance_is_shown_as_text(tab, url):
    attack = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"
    tab.goto(url)
    judge(tab, (attack, attack, attack, attack))
    tab.locator(".chat p").first.wait_for()
    assert all(text.endswith(attack) for text in tab.locator(".chat p").all_inner_texts())
    assert tab.locator(".chat img, .chat script").count() == 0


def test_an_empty_box_is_told_where_the_verdict_was_and_enter_judges_once_it_is_filled(tab, url):
    tab.goto(url)
    judge(tab, CHATS[0])
    tab.locator(".chat p").first.wait_for()
    judge(tab, ("", *CHATS[0][1:3], ""))
    tab.locator("#verdict", has_text="u1, b2 are empty; all four utterances are needed").wait_for()
    tab.locator(".chat").wait_for(state="detached")
    assert "%" not in tab.locator("#verdict").inner_text() + tab.locator("#scores").inner_text()
    box(tab, "u1").fill(CHATS[0][0])
    box(tab, "b2").fill(CHATS[0][3])
    box(tab, "b2").press("Enter")
    tab.locator(".chat p", has_text=CHATS[0][3]).wait_for()
    assert "empty" not in tab.locator("#verdict").inner_text()


def test_the_keyboard_clears_boxes_and_verdict(tab, url):
    tab.goto(url)
    judge(tab, CHATS[0])
    tab.locator(".chat p").first.wait_for()
    tab.get_by_role("button", name="Judge the last reply").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.locator("#verdict", has_text="The verdict appears here").wait_for()
    tab.locator(".chat").wait_for(state="detached")
    assert [box(tab, column).input_value() for column in COLUMNS] == [""] * 4
    assert "%" not in tab.locator("#scores").inner_text()
    tab.keyboard.type("你好")  # the first box has the focus
    assert box(tab, "u1").input_value() == "你好"


def test_a_chinese_visitor_reads_chinese(chromium, url, wording, facade):
    words = wording.CHINESE
    with chromium.new_context(locale="zh-CN").new_page() as tab:
        tab.set_default_timeout(15_000)
        tab.goto(url)
        tab.get_by_role("button", name=words["judge"]).wait_for()
        tab.wait_for_function("title => document.title === title", arg=words["title"])
        assert "__i18n__" not in tab.inner_text("body")
        for english in ("Judge", "Clear", "verdict", "Examples", "Limits", "user", "bot"):
            assert english not in tab.inner_text("body")
        for column, text in zip(COLUMNS, CHATS[0], strict=True):
            tab.get_by_label(words[column]).fill(text)
        tab.get_by_role("button", name=words["judge"]).click()
        tab.locator("#verdict", has_text=words[facade(CHATS[0]).label]).wait_for()
        assert tab.locator(".chat small").first.inner_text() == "u1 · 用户"
        tab.get_by_label(words["u1"]).fill("")
        tab.get_by_role("button", name=words["judge"]).click()
        tab.locator("#verdict", has_text="u1 为空；四句话都要填写").wait_for()
        tab.get_by_role("button", name=words["clear"]).click()
        tab.locator("#verdict", has_text="判断结果显示在这里").wait_for()


@pytest.mark.parametrize("locale", ["zh", "zh-HK", "zh-Hans-CN"])
def test_every_form_of_chinese_gets_the_page_in_chinese(chromium, url, wording, locale):
    with chromium.new_context(locale=locale).new_page() as tab:
        tab.set_default_timeout(15_000)
        tab.goto(url)
        tab.get_by_role("button", name=wording.CHINESE["judge"]).wait_for()
        assert "__i18n__" not in tab.inner_text("body")


def test_a_visitor_pastes_a_chat_and_moves_the_threshold(tab, url, judging, model, wording):
    tab.goto(url)
    tab.get_by_role("tab", name="A whole chat").click()
    tab.locator("#verdicts[aria-live=polite]").wait_for()
    text = tab.locator("#text textarea")
    button = tab.get_by_role("button", name="Judge every reply")
    button.click()
    tab.locator("#verdicts", has_text="Not judged").wait_for()
    chat = [line for each in CHATS[:2] for line in each]
    text.fill('[{"role": "user", "content": "你好"}, {"role": "![](http://192.0.2.1/x.png)<b>", "content": "你好"}]')
    button.click()
    tab.locator("#verdicts", has_text="![](http://192.0.2.1/x.png)<b>").wait_for()  # shown, and not fetched
    text.fill("\n".join(chat))
    button.click()
    tab.locator("#whole .chat p").nth(7).wait_for()
    assert [each.split("\n")[-1] for each in tab.locator("#whole .chat p").all_inner_texts()] == chat
    counts = []
    scanned = judging.scan(ContradictionDetector.from_pretrained(model), "\n".join(chat), wording.ENGLISH)
    for key, threshold in (("Home", 0.1), ("End", 0.9)):
        tab.get_by_role("slider").press(key)  # which decides again by itself
        counts.append(sum(bool(verdict.is_contradiction) for verdict in scanned.called(threshold)))
        tab.locator("#verdicts", has_text=f"Contradictions: {counts[-1]} of 4").wait_for()
        assert tab.locator("#whole .clash").count() == counts[-1]
    assert counts[0] > counts[1]
    tab.get_by_role("button", name="Clear").locator("visible=true").click()
    tab.locator("#whole .chat").wait_for(state="detached")
    assert text.input_value() == ""


def test_the_page_of_the_metric_scores_its_example(tab, tmp_path):
    port = free_port()
    command = [sys.executable, "evaluate_metric/app.py"]
    address = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    with served(command, port, tmp_path / "metric.log", **address) as url:
        tab.goto(url)
        tab.get_by_role("button", name="Score").click()
        tab.get_by_text("83.3").locator("visible=true").first.wait_for()  # the accuracy: five of six
        tab.screenshot(path=tmp_path / "metric.png", full_page=True)
        shown = tab.inner_text("body")
        assert all(name in shown for name in ("macro-F1", "merged to 2-class", *LABELS["4-class"]))
        tab.get_by_label("Predictions", exact=True).fill("0, 3")
        tab.get_by_role("button", name="Score").click()
        tab.get_by_text("lengths differ: 6 references, 2 predictions").wait_for()
    assert "Traceback" not in (tmp_path / "metric.log").read_text(encoding="utf-8")
