"""Takes the screenshots in ``docs/images``. Needs Playwright and Chromium.

``python -m experiments.screenshots`` takes those of the demo page and of the review page. With a FOLDER it takes that
of the report that ``cdconv probe report`` wrote to the folder.
"""

import base64
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import typer
from playwright.sync_api import sync_playwright

from contradiction import ContradictionDetector, cli, paths
from contradiction.chats.readers import read_pasted
from contradiction.commands import serve
from contradiction.io import files
from contradiction.serving.review import application
from contradiction.serving.review_store import LabelStore

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = {"width": 1180, "height": 1070}
CHAT = ("你养宠物吗？", "养了一只橘猫", "它叫什么名字？", "它叫橘子", "能带来给我看看吗？", "我从来没养过猫")
LANGUAGES = {"chat.png": "en-US", "chat.zh.png": "zh-CN"}  # of the browser


def main(folder: Annotated[Path | None, typer.Argument(help="The folder of a report.")] = None) -> None:
    """Takes the screenshots of the demo page and of the review page, or that of a report."""
    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if folder:
            take_report(browser, folder / "report.html", FOLDER / "probe-report.png")
        else:
            demo, url = serve.page().serve(ContradictionDetector.from_pretrained(paths.SHIPPED), "127.0.0.1")
            try:
                for name, language in LANGUAGES.items():
                    take_page(browser, url, FOLDER / name, language)
                take_review(browser, FOLDER / "review.png")
            finally:
                demo.close(verbose=False)
        browser.close()


def take_report(browser: Any, file: Path, path: Path) -> None:
    """Takes the screenshot of a report."""
    tab = browser.new_page(viewport=SIZE)
    tab.goto(file.resolve().as_uri())
    with files.new_file(path) as partial:
        tab.screenshot(path=partial, type="png")
    tab.close()


def take_page(browser: Any, url: str, path: Path, language: str) -> None:
    """Takes the screenshot of the chat on the demo page in one language."""
    tab = browser.new_page(viewport=SIZE, locale=language, device_scale_factor=2)
    tab.set_default_timeout(300_000)  # of a busy machine
    messages = [[index % 2, text] for index, text in enumerate(CHAT)]
    chat = base64.urlsafe_b64encode(json.dumps({"m": messages}).encode()).decode().rstrip("=")
    tab.goto(f"{url}?__theme=light#chat={chat}")
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").nth(2).wait_for()
    tab.wait_for_timeout(1500)  # until the fonts are there
    card, thread = (tab.locator(name).bounding_box() for name in (".cd-chat", ".cd-messages"))
    height = thread["y"] + thread["height"] - card["y"]  # without the field for the next message
    with files.new_file(path) as partial:
        tab.screenshot(path=partial, type="png", clip={**card, "height": height})
    tab.close()


REVIEWED = """用户：你养猫吗？
机器人：养了一只橘猫
用户：今天天气真好
机器人：是啊，想出去走走
用户：猫叫什么？
机器人：我没养过猫呀"""


def take_review(browser: Any, path: Path) -> None:
    """Takes the screenshot of the page on which people label chats."""
    import uvicorn

    with tempfile.TemporaryDirectory() as folder:
        store = LabelStore(Path(folder) / "labels.jsonl")
        store.add([(str(number), [*read_pasted(REVIEWED).messages[number:]]) for number in (0, 2, 4)])
        server = uvicorn.Server(uvicorn.Config(application(store), host="127.0.0.1", port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            thread.join(0.05)
        tab = browser.new_page(viewport={"width": 1180, "height": 860}, locale="en-US")
        tab.goto(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/")
        tab.get_by_role("textbox").fill("Anna")
        tab.keyboard.press("Enter")
        tab.locator("li.judged").wait_for()
        with files.new_file(path) as partial:
            tab.screenshot(path=partial, type="png")
        tab.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    cli.main(cli.script(main))
