"""The review page in a browser: two people and a third use only the keyboard."""

import json
import threading
from contextlib import contextmanager

import pytest
from helpers.browser import serious_violations
from helpers.chats import chat

from contradiction import guidelines
from contradiction.serving.review_store import LabelStore

pytestmark = pytest.mark.browser
ATTACK = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
LONG = chat("你养猫吗？", "养了一只橘猫", "今天天气好", "是啊", "猫叫什么？", "我没养过猫")


@contextmanager
def serve(store):
    """Serves the page in a thread and returns its address."""
    import uvicorn

    from contradiction.serving.review import application

    server = uvicorn.Server(uvicorn.Config(application(store), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def store(tmp_path):
    store = LabelStore(tmp_path / "labels.jsonl")
    plain = [(f"c{n}", chat("你好", f"你好呀{n}", "在吗？", f"在的{n}")) for n in range(2)]
    store.add([*plain, ("long", LONG), ("attack", chat(ATTACK, ATTACK))])
    return store


def join(tab, url, name="Anna"):
    tab.goto(url)
    tab.get_by_role("textbox").fill(name)
    tab.keyboard.press("Enter")
    tab.locator(".who", has_text=name).wait_for()
    return tab


def test_two_people_and_a_third_label_by_the_keyboard(store, open_tab):
    def press(tab, *keys, done):
        for key in keys:
            tab.keyboard.press(key)
        tab.locator(".who", has_text=str(done)).wait_for()

    with serve(store) as url:
        anna = join(open_tab(locale="en-US"), url)
        assert anna.locator("aside dd").all_inner_texts() == [*guidelines.MEANINGS["en"].values()]
        assert anna.locator("li.judged p").inner_text() == "在的0"
        anna.keyboard.press("g")
        assert not anna.locator("aside").is_visible()
        anna.keyboard.press("g")
        press(anna, "1", done="1 of 4")
        press(anna, "2", done="2 of 4")
        # A correction: go back, choose another label, and continue.
        anna.keyboard.press("Backspace")
        anna.locator("li.judged", has_text="在的1").wait_for()
        anna.keyboard.press("1")
        anna.locator("li.judged", has_text="我没养过猫").wait_for()
        # The contradicted message: move up from the nearest to the first.
        anna.keyboard.press("4")
        assert anna.locator("li.choosable").count() == 2
        assert anna.locator("li.chosen p").inner_text() == "是啊"
        press(anna, "ArrowUp", "Enter", done="3 of 4")
        assert anna.locator("li p").all_inner_texts() == [ATTACK, ATTACK], "markup is shown as text"
        press(anna, "1", done="4 of 4")
        assert "All done" in anna.locator("#work").inner_text()

        ben = join(open_tab(locale="zh-CN", color_scheme="dark"), url, "Ben")
        assert ben.locator("aside dd").all_inner_texts() == [*guidelines.MEANINGS["zh"].values()]
        assert serious_violations(anna) == serious_violations(ben) == []
        press(ben, "1", done="1 / 4")
        press(ben, "3", done="2 / 4")
        press(ben, "4", "1", done="3 / 4")
        press(ben, "0", done="4 / 4")

        carla = join(open_tab(locale="en-US", viewport={"width": 390, "height": 844}), url, "Carla")
        assert carla.locator("li.judged p").inner_text() == "在的1"
        assert "Carla (third) · 0 of 2" in carla.locator(".who").inner_text()
        carla.get_by_role("button", name="role confusion").click()
        carla.locator(".who", has_text="1 of 2").wait_for()
        press(carla, "1", done="2 of 2")
        assert "Nothing to decide" in carla.locator("#work").inner_text()
    labels = {one["id"]: (one["label"], one.get("evidence")) for one in store.export()}
    assert labels == {
        "c0": ("non-contradiction", None), "c1": ("role-confusion", None), "long": ("history", 1),
        "attack": ("non-contradiction", None),
    }  # fmt: skip


def test_a_reply_can_contradict_what_the_bot_was_told(tmp_path, open_tab):
    store = LabelStore(tmp_path / "told.jsonl", annotators=1)
    told = {"role": "system", "content": "你叫小林，没有养猫。"}
    store.add([(name, [told, *chat("你好", f"你好{name}", "你养猫吗？", "养了两只")]) for name in ("a", "b")])
    with serve(store) as url:
        tab = open_tab(locale="en-US")
        tab.add_init_script("localStorage.setItem('language', 'of another page')")
        join(tab, url)
        assert tab.locator("li.told p").inner_text() == told["content"]
        assert "What the bot was told" in tab.locator("li.told").inner_text()
        for key, done in (("1", "1 of 2"), ("2", "2 of 2")):
            tab.keyboard.press("4")
            assert tab.locator("li.choosable").count() == 2
            assert serious_violations(tab) == []
            tab.keyboard.press(key)
            tab.locator(".who", has_text=done).wait_for()
    assert [(one["label"], one.get("evidence")) for one in store.export()] == [("history", None), ("history", 2)]


def test_a_label_that_the_server_did_not_accept_is_sent_again(store, chromium):
    with serve(store) as url:
        tab = chromium.new_page(locale="en-US")
        tab.set_default_timeout(60_000)
        join(tab, url)
        full = [True]  # until the page has said so

        def route(route):
            if full:
                route.fulfill(status=500, body=json.dumps({"error": "the disk is full"}))
            else:
                route.continue_()

        tab.route("**/api/label", route)
        tab.keyboard.press("1")
        tab.locator(".status.bad", has_text="the disk is full").wait_for()
        full.clear()
        tab.locator(".who", has_text="1 of 4").wait_for()
    assert store.progress(1) == (1, 4)
