"""Takes the pictures of the demo page in ``docs/images``: ``python docs/picture.py``, with Chromium at hand."""

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from contradiction import ContradictionDetector, page, paths
from contradiction.io import files

FOLDER = Path(__file__).with_name("images")
DESKTOP, PHONE = {"width": 1180, "height": 1070}, {"width": 390, "height": 844}
RESULTS = {"width": 1180, "height": 1150}
CHAT = ("你养宠物吗？", "养了一只橘猫", "它叫什么名字？", "它叫橘子", "能带来给我看看吗？", "我没养过猫呀")
# Name -> language of the browser, its size, the colours, and the number of the tab.
PICTURES: dict[str, tuple[str, dict[str, int], str, int]] = {
    "page.png": ("en-US", DESKTOP, "light", 0),
    "page.zh.png": ("zh-CN", DESKTOP, "light", 0),
    "page-phone-dark.zh.png": ("zh-CN", PHONE, "dark", 0),
    "page-results.png": ("en-US", RESULTS, "light", 2),
}


def main() -> None:
    """Serves the page with the shipped detector and takes the pictures."""
    demo, url = page.app().serve(ContradictionDetector.from_pretrained(paths.SHIPPED), "127.0.0.1")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, shown in PICTURES.items():
                take(browser, url, FOLDER / name, *shown)
            browser.close()
    finally:
        demo.close(verbose=False)


def take(browser: Any, url: str, path: Path, locale: str, size: dict[str, int], colours: str, number: int) -> None:
    """Takes one picture."""
    tab = browser.new_page(viewport=size, locale=locale)
    tab.set_default_timeout(300_000)  # of a busy machine
    messages = [[index % 2, text] for index, text in enumerate(CHAT)]
    chat = base64.urlsafe_b64encode(json.dumps({"m": messages}).encode()).decode().rstrip("=")
    tab.goto(f"{url}?__theme={colours}#chat={chat}")
    tab.locator(".cd-messages[aria-busy=false] .cd-mark").nth(2).wait_for()
    tab.get_by_role("tab").nth(number).click()
    tab.wait_for_timeout(1500)  # until fonts and plots are there
    with files.new_file(path) as partial:
        tab.screenshot(path=partial, type="png")
    tab.close()


if __name__ == "__main__":
    main()
