"""A verdict that comes late, in a real browser: what the visitor does meanwhile on the demo page."""

from contextlib import suppress

import pytest
from helpers.processes import wait_for
from serving import CHATS

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")]


def test_what_comes_late_takes_no_typed_text_away_and_marks_no_words_of_another_chat(open_tab, url, facade):
    chat = next(chat for chat in CHATS if facade(chat).kind == "history")
    tab = open_tab()
    tab.goto(url)
    tab.get_by_role("button", name="Paste a chat").click()
    tab.get_by_role("textbox", name="Paste a chat").fill("\n".join(chat))
    tab.get_by_role("button", name="Read", exact=True).click()
    tab.locator(".cd-text", has_text=chat[3]).wait_for()
    tab.locator(".cd-messages[aria-busy=false] li").nth(3).locator(".cd-mark").wait_for()
    held = {}
    tab.route("**/v1/clauses", lambda route: held.update(clauses=route))
    tab.get_by_role("button", name="Which words?").last.click()
    assert wait_for(lambda: tab.wait_for_timeout(50) or held, seconds=60)
    tab.route("**/v1/scan", lambda route: held.update(scan=route))
    tab.get_by_role("button", name="Delete message 1").click()
    assert wait_for(lambda: tab.wait_for_timeout(50) or "scan" in held, seconds=60)
    tab.get_by_role("button", name="Edit message 2").click()
    box = tab.get_by_role("textbox", name="Edit")
    box.fill("写到一半")
    typing = tab.context.new_cdp_session(tab)
    typing.send("Input.imeSetComposition", {"text": "nihao", "selectionStart": 5, "selectionEnd": 5})
    clauses = [{"message": index, "start": 0, "end": 1} for index in (0, 2)]
    with suppress(Exception):  # the page has given it up
        held["clauses"].fulfill(json={"clauses": clauses})
    held["scan"].continue_()
    tab.locator(".cd-messages[aria-busy=false]").wait_for()
    typing.send("Input.insertText", {"text": "你好"})  # the input method ends
    assert tab.locator("mark").count() == 0 and "clash are marked" not in tab.locator(".cd-status").inner_text()
    assert box.input_value() == "写到一半你好"
    tab.unroute_all()
    tab.keyboard.press("Enter")  # the box has the focus
    tab.locator(".cd-messages[aria-busy=false] .cd-text", has_text="写到一半你好").wait_for()


def test_while_another_chat_is_judged_the_verdict_on_the_one_before_is_not_shown_and_back_returns_to_it(open_tab, url):
    tab, held = open_tab(), []
    tab.goto(url)
    marked = tab.locator(".cd-messages[aria-busy=false] .cd-mark").first
    marked.wait_for()
    said = tab.locator(".cd-status").inner_text()
    first = tab.locator(".cd-text").all_inner_texts()
    tab.route("**/v1/scan", lambda route: held.append(route))
    tab.locator(".cd-examples button").last.click()
    tab.locator(".cd-status", has_text="Reading the chat").wait_for()
    assert tab.locator(".cd-text").all_inner_texts() != first
    held.pop().continue_()
    tab.unroute_all()
    marked.wait_for()
    assert "Reading" not in tab.locator(".cd-status").inner_text()
    tab.get_by_role("button", name="Clear", exact=True).click()
    tab.locator(".cd-text").first.wait_for(state="detached")
    for _ in range(2):
        tab.go_back()
        marked.wait_for()
    assert tab.locator(".cd-text").all_inner_texts() == first
    assert tab.locator(".cd-status").inner_text() == said


def test_a_server_that_does_not_answer_is_reported_in_the_language_of_the_visitor(chromium, url):
    context = chromium.new_context(locale="zh-CN")  # not open_tab: the browser logs the failures as errors
    tab = context.new_page()
    tab.goto(url)
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").first.wait_for()
    for failure in (lambda route: route.abort(), lambda route: route.fulfill(status=502, body="<html>")):
        tab.unroute_all()
        tab.route("**/v1/scan", failure)
        tab.get_by_role("button", name="清空").click()
        tab.locator(".cd-examples button").first.click()
        tab.locator(".cd-status", has_text="未作判断：服务器没有响应，请稍后再试。").wait_for()
    context.close()


def test_the_tick_of_a_first_reply_is_at_the_threshold_for_first_replies(open_tab, url):
    tab = open_tab()

    def with_opening(route):
        answer = route.fetch()
        assert '"opening":0.0' in answer.text()
        route.fulfill(response=answer, body=answer.text().replace('"opening":0.0', '"opening":0.875'))

    tab.route(url, with_opening)
    tab.goto(url)
    ticks = tab.locator(".cd-messages[aria-busy=false] .cd-meter u")
    ticks.nth(1).wait_for()
    assert [tick.get_attribute("style") for tick in ticks.all()] == ["left: 87.5%;", "left: 50%;"]
    tab.get_by_label("Threshold", exact=False).first.press("ArrowRight")  # the visitor's own threshold is for all
    tab.wait_for_function("document.querySelector('.cd-meter u')?.style.left === '51%'")


def test_a_chat_that_is_cleared_waits_for_no_verdict(open_tab, url):
    tab = open_tab()
    tab.goto(url)
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").first.wait_for()
    tab.route("**/v1/scan", lambda route: None)
    tab.get_by_role("button", name="Delete message 1").click()
    tab.locator(".cd-messages[aria-busy=true]").wait_for()
    tab.get_by_role("button", name="Clear", exact=True).click()
    tab.locator(".cd-messages[aria-busy=false]").wait_for(state="attached", timeout=5000)
