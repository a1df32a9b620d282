"""Takes the pictures in ``docs/images``, with Chromium at hand.

``python docs/picture.py`` takes those of the demo page, ``python docs/picture.py FOLDER`` the one of the report that
``cdconv probe report`` wrote to a folder.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from contradiction import ContradictionDetector, page, paths
from contradiction.io import files

FOLDER = Path(__file__).with_name("images")
DESKTOP, PHONE = {"width": 1180, "height": 1300}, {"width": 390, "height": 844}
CHAT = "你有对象吗？"  # the example that is shown, by its first line
# Name -> language of the browser, its size, the colours, and the number of the tab.
PICTURES: dict[str, tuple[str, dict[str, int], str, int]] = {
    "page.png": ("en-US", DESKTOP, "light", 0),
    "page.zh.png": ("zh-CN", DESKTOP, "light", 0),
    "page-phone-dark.zh.png": ("zh-CN", PHONE, "dark", 0),
    "page-results.png": ("en-US", DESKTOP, "light", 2),
}


def main() -> None:
    """Serves the page with the shipped detector and takes the pictures, or takes that of a report."""
    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if len(sys.argv) > 1:
            take_report(browser, Path(sys.argv[1]) / "report.html", FOLDER / "probe-report.png")
        else:
            demo, url = page.app().serve(ContradictionDetector.from_pretrained(paths.SHIPPED), "127.0.0.1")
            try:
                for name, shown in PICTURES.items():
                    take(browser, url, FOLDER / name, *shown)
            finally:
                demo.close(verbose=False)
        browser.close()


def take_report(browser: Any, file: Path, path: Path) -> None:
    """Takes the picture of a report."""
    tab = browser.new_page(viewport=DESKTOP)
    tab.goto(file.resolve().as_uri())
    with files.new_file(path) as partial:
        tab.screenshot(path=partial, type="png")
    tab.close()


def take(browser: Any, url: str, path: Path, locale: str, size: dict[str, int], colours: str, number: int) -> None:
    """Takes one picture."""
    tab = browser.new_page(viewport=size, locale=locale)
    tab.goto(f"{url}?__theme={colours}")
    tab.locator(".cd-mark").first.wait_for()
    if number:
        tab.get_by_role("tab").nth(number).click()
    else:
        tab.get_by_role("button", name=CHAT, exact=True).click()
        tab.locator(".cd-messages[aria-busy=false] li").nth(9).wait_for()
        tab.locator(".cd-messages").evaluate("list => list.scrollTo(0, 0)")
    tab.wait_for_timeout(1500)  # until fonts and plots are there
    with files.new_file(path) as partial:
        tab.screenshot(path=partial, type="png")
    tab.close()


if __name__ == "__main__":
    main()
