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


def test_a_chat_that_is_cleared_waits_for_no_verdict(open_tab, url):
    tab = open_tab()
    tab.goto(url)
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").first.wait_for()
    tab.route("**/v1/scan", lambda route: None)
    tab.get_by_role("button", name="Delete message 1").click()
    tab.locator(".cd-messages[aria-busy=true]").wait_for()
    tab.get_by_role("button", name="Clear", exact=True).click()
    tab.locator(".cd-messages[aria-busy=false]").wait_for(state="attached", timeout=5000)
