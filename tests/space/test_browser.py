"""The demo page and the metric page, as real processes in a real browser."""

import base64
import json
import shlex
import urllib.request
from pathlib import Path

import pytest
from helpers.browser import serious_violations
from helpers.chats import chat as messages
from helpers.processes import free_port, wait_for
from serving import CHATS, REPLY, served

from contradiction.labels import LABELS

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")]
WORDS = ("Contradiction", "No contradiction")
ATTACK = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


def address(url, texts):
    """The link to a chat."""
    kept = {"m": [[index % 2, text] for index, text in enumerate(texts)]}
    return f"{url}#chat={base64.urlsafe_b64encode(json.dumps(kept).encode()).decode().rstrip('=')}"


def marks(tab):
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").first.wait_for()
    return tab.locator(".cd-mark").all_inner_texts()


def test_a_typed_chat_gets_the_verdict_of_the_facade(open_tab, url, facade):
    chat, verdict = next((chat, judged) for chat in CHATS if (judged := facade(chat)).kind == "history")
    tab = open_tab()
    tab.goto(url)
    marks(tab)  # of the first example
    tab.get_by_role("button", name="Clear", exact=True).click()
    box = tab.locator("#cd-box")
    for text in chat:  # Enter sends, and the side changes automatically
        box.fill(text)
        box.press("Enter")
    tab.locator(".cd-messages li").nth(3).locator(".cd-mark").wait_for()
    assert tab.locator(".cd-text").all_inner_texts() == list(chat)
    evidence_text = tab.locator(".cd-messages li").nth(3).locator(".cd-mark").inner_text()
    assert (
        "Contradiction" in evidence_text
        and verdict.certainty in evidence_text
        and f"{verdict.probability:.0%}".rstrip("%") in evidence_text
    )
    assert "contradicted by" in tab.locator(".cd-messages li").nth(1).inner_text()
    # The address contains the chat, so another visitor sees the same.
    other = open_tab()
    other.goto(tab.url)
    other.locator(".cd-messages li").nth(3).locator(".cd-mark").wait_for()
    assert other.locator(".cd-text").all_inner_texts() == list(chat)
    # After deletion by keyboard nothing is left to contradict.
    tab.get_by_role("button", name="Delete message 2").focus()
    tab.keyboard.press("Enter")
    tab.locator(".cd-messages li").nth(3).wait_for(state="detached")
    # At a high threshold nothing is called a contradiction.
    tab.get_by_label("Threshold", exact=False).first.press("End")
    tab.locator(".cd-status.fine").wait_for()


def test_an_example_a_paste_and_an_edit_are_judged_on_a_chinese_phone(open_tab, url):
    tab = open_tab(locale="zh-HK", color_scheme="dark")
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{url}?__theme=dark")
    marks(tab)
    assert tab.title() == "CDConv：机器人自相矛盾了吗？"
    assert tab.locator("h1").inner_text() == "机器人自相矛盾了吗？"
    assert "__i18n__" not in tab.inner_text("body")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.get_by_role("button", name="粘贴对话").click()
    tab.get_by_role("textbox", name="粘贴对话").fill("用户：你好\n机器人：？！")
    tab.get_by_role("button", name="导入").click()
    tab.locator(".cd-mark.none", has_text="未作判断：这条回复没有文字。").wait_for()
    tab.get_by_role("button", name="修改 第 2 条").click()
    tab.get_by_role("textbox", name="修改").fill("你好呀，我叫小明")
    tab.keyboard.press("Enter")
    tab.locator(".cd-text", has_text="你好呀，我叫小明").wait_for()
    tab.get_by_role("button", name="English").click()
    tab.locator("h1", has_text="Does the bot").wait_for()
    tab.locator(".cd-text", has_text="你好呀，我叫小明").wait_for()  # the chat survives the switch
    assert tab.get_by_role("tab", name="A file of chats").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(open_tab, url, scheme):
    tab = open_tab(color_scheme=scheme)
    tab.goto(f"{url}?__theme={scheme}")
    marks(tab)
    violations = {}
    for name in ("Chat", "A file of chats", "How good is it?", "Use it in code"):
        tab.get_by_role("tab", name=name, exact=True).click()
        tab.get_by_role("tab", name=name, exact=True, selected=True).wait_for()
        violations[name] = serious_violations(tab)
    assert not any(violations.values()), violations


def test_markup_is_shown_as_text_wherever_it_comes_from(open_tab, url, tmp_path):
    tab = open_tab()
    tab.goto(address(url, [ATTACK, ATTACK, ATTACK, ATTACK + "你好"]))
    tab.locator(".cd-text").nth(3).wait_for()
    marks(tab)
    assert tab.locator(".cd-text").first.inner_text() == ATTACK
    tab.get_by_role("button", name="Paste a chat").click()
    tab.get_by_role("textbox", name="Paste a chat").fill(json.dumps([{"role": ATTACK, "content": ATTACK}]))
    tab.get_by_role("button", name="Read", exact=True).click()
    tab.locator(".cd-problem", has_text="<img").wait_for()
    tab.get_by_role("button", name="Cancel").click()
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps({"id": ATTACK, "messages": messages("你好", ATTACK + "我是北京人")}), encoding="utf-8")
    tab.get_by_role("tab", name="A file of chats").click()
    tab.locator("#file input[type=file]").set_input_files(file)
    tab.locator("#run").click()
    tab.locator("#table").get_by_text(ATTACK, exact=True).locator("visible=true").first.wait_for()
    assert tab.locator("img[src=x]").count() == 0


def test_a_file_is_judged_filtered_and_downloaded(open_tab, url, facade, tmp_path):
    file = tmp_path / "chats.json"
    both = [
        next(chat for chat in CHATS if facade(chat[:2]).contradiction is contradicts) for contradicts in (True, False)
    ]
    file.write_text(json.dumps([{"messages": messages(*chat)} for chat in both]), encoding="utf-8")
    tab = open_tab()
    tab.goto(url)
    tab.get_by_role("tab", name="A file of chats").click()
    tab.locator("#table th", has_text="verdict").locator("visible=true").first.wait_for()  # before any file is judged
    tab.locator("#file input[type=file]").set_input_files(file)
    tab.locator("#run").click()
    tab.wait_for_function(
        "document.querySelector('#said textarea')?.value.startsWith('Chats: 2. Replies read completely: 4.')"
    )
    cells = [tab.locator("#table").get_by_text(word, exact=True).locator("visible=true") for word in WORDS]
    cells[1].first.wait_for()
    tab.get_by_role("radio", name="contradictions").click()
    cells[1].first.wait_for(state="detached")
    cells[0].first.wait_for()
    with tab.expect_download() as download:
        tab.locator("#download").click()
    assert len(Path(download.value.path()).read_text(encoding="utf-8").splitlines()) == 2


def test_one_file_is_judged_at_a_time_and_stop_cancels_it(open_tab, url, tmp_path):
    file = tmp_path / "chats.jsonl"
    # Long chats take long to judge, and give the page few rows to draw, also on a slow machine.
    chats = [messages(*(f"{chat}-{turn}你好" for turn in range(64))) for chat in range(96)]
    file.write_text("\n".join(json.dumps(chat) for chat in chats), encoding="utf-8")

    def predicted():
        with urllib.request.urlopen(f"{url}metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("cdconv_rows_total"))

    def opened():
        tab = open_tab()
        tab.goto(url)
        tab.get_by_role("tab", name="A file of chats").click()
        tab.locator("#file input[type=file]").set_input_files(file)
        return tab

    tab, other = opened(), opened()
    tab.locator("#run").dblclick()
    tab.wait_for_function("document.querySelector('#said textarea')?.value.includes('Replies read')")
    other.locator("#run").click()
    other.get_by_text("A file of yours is being judged").wait_for()
    assert "judged" not in other.locator("#said textarea").input_value()
    tab.locator("#stop").click()

    def stands_still():
        before = predicted()
        tab.wait_for_timeout(2000)
        return predicted() == before

    assert wait_for(stands_still, seconds=60)  # until the started chats are done
    before = predicted()
    # The visitor can continue with another file. Had this one been judged completely, all its rows would be known.

    def goes_on():
        tab.locator("#run").click()  # refused while the last chat of the stopped run is being judged
        tab.wait_for_timeout(2000)
        return predicted() > before

    assert wait_for(goes_on, seconds=60)


def test_copied_code_gives_the_same_verdicts(open_tab, url, facade):
    chat, verdict = next((chat, judged) for chat in CHATS if (judged := facade(chat)).contradiction)
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"])
    tab.goto(address(url, chat))
    tab.locator(".cd-messages li").nth(3).locator(".cd-mark").wait_for()
    copied = {}
    for name in ("JSON", "Python", "curl"):
        tab.evaluate("navigator.clipboard.writeText('')")
        tab.get_by_role("button", name=name, exact=True).click()
        tab.wait_for_function("navigator.clipboard.readText().then((text) => text !== '')")
        copied[name] = tab.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied["JSON"]) == {"messages": messages(*chat)}
    compile(copied["Python"], "copied", "exec")
    command = shlex.split(copied["curl"])
    assert command[1] == f"{url}v1/scan"
    request = urllib.request.Request(command[1], command[-1].encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["verdicts"][-1]["kind"] == verdict.kind


def test_examples_sort_in_four_ways_and_a_click_shows_one(open_tab, url):
    tab = open_tab()
    tab.goto(url)
    marks(tab)
    for name in ("Two replies", "Kind", "Trigger", "Persona", "Longer chats"):
        tab.get_by_role("button", name=name, exact=True).click()
        choice = tab.locator(".cd-examples button").last
        label = choice.inner_text().split("→")[-1].strip()
        choice.click()
        tab.locator(".cd-messages[aria-busy=false] .cd-text", has_text=label).first.wait_for()


def test_each_reply_of_the_connected_bot_is_marked(open_tab, connected, detectors):
    tab = open_tab()
    tab.goto(connected)
    marks(tab)
    tab.get_by_role("button", name="Clear", exact=True).click()
    box = tab.locator("#cd-box")
    for number, text in enumerate(["你养宠物吗？", "markup"]):
        box.fill(text)
        box.press("Enter")
        tab.locator(".cd-messages[aria-busy=false] li").nth(2 * number + 1).locator(".cd-mark").wait_for()
    replies = tab.locator(".cd-messages li.bot .cd-text").all_inner_texts()
    assert replies == [REPLY, "<img src=x onerror=\"alert('owned')\">你好"]
    assert tab.locator("img[src=x]").count() == 0
    # Another detector judges the same chat. This one gives no kind.
    tab.get_by_label("Detector").select_option(Path(detectors[1].name).name)
    tab.locator(".cd-messages[aria-busy=false]").wait_for()
    assert Path(detectors[1].name).name in base64.urlsafe_b64decode(tab.url.split("#chat=")[1] + "==").decode()
    # The bot can be switched off. Then the visitor writes both sides.
    tab.get_by_label("small-bot replies").uncheck()
    box.fill("你好")
    box.press("Enter")
    tab.get_by_role("button", name="Ask small-bot again").wait_for()
    assert tab.locator(".cd-messages li").count() == 5


def test_a_bot_failure_is_shown_and_the_bot_can_be_called_again(connected, chromium):
    context = chromium.new_context(locale="zh-CN")  # not open_tab: the browser logs the status as an error
    tab = context.new_page()
    tab.goto(connected)
    tab.get_by_role("button", name="清空").click()
    tab.locator("#cd-box").fill("status")
    tab.locator("#cd-box").press("Enter")
    tab.locator(".cd-status", has_text="没有回复：请稍后再试。").wait_for()
    tab.get_by_role("button", name="修改 第 1 条").click()
    tab.get_by_role("textbox", name="修改").fill("你养宠物吗？")
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="让 small-bot 重新回复").click()
    tab.locator(".cd-text", has_text=REPLY).wait_for()
    context.close()


def test_the_page_of_the_metric_scores_its_example(open_tab, tmp_path):
    port = free_port()
    code = (
        "import runpy, sys; sys.path.insert(0, 'evaluate_metric')\n"
        "del sys.modules['evaluate_metric']  # the package; the page imports the module in its own folder\n"
        "runpy.run_path('evaluate_metric/app.py', run_name='__main__')"
    )
    address = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    with served(code, port, tmp_path / "metric.log", **address) as url:
        tab = open_tab()
        tab.goto(url)
        tab.get_by_text("83.3").locator("visible=true").first.wait_for()  # the accuracy: five of six
        shown = tab.inner_text("body")
        assert all(name in shown for name in ("macro-F1", "merged to 2-class", *LABELS["4-class"]))
        assert serious_violations(tab) == []
        tab.get_by_label("Predictions", exact=True).fill("0, 3")
        tab.get_by_role("button", name="Score").click()
        tab.get_by_text("lengths differ: 6 references, 2 predictions").wait_for()
        chinese = open_tab(locale="zh-CN", color_scheme="dark")
        chinese.goto(f"{url}?__theme=dark")
        chinese.get_by_role("button", name="计算").wait_for()
        chinese.get_by_text("83.3").locator("visible=true").first.wait_for()
        assert "__i18n__" not in chinese.inner_text("body")
        for page in (tab, chinese):  # before the server ends, or the page would log an error
            page.close()
    assert "Traceback" not in (tmp_path / "metric.log").read_text(encoding="utf-8")
