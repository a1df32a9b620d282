"""Takes the pictures of the demo page that the READMEs show: ``python docs/picture.py``, with Chromium at hand."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from contradiction import ContradictionDetector, page, paths
from contradiction.io import files

PICTURES = {"page.png": "en-US", "page.zh.png": "zh-CN"}
WIDTH, HEIGHT = 1180, 980


def main() -> None:
    """Serves the page with the shipped detector, and takes a picture of its first chat in each language."""
    demo, url = page.app().serve(ContradictionDetector.from_pretrained(paths.SHIPPED), "127.0.0.1")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, locale in PICTURES.items():
                tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, locale=locale)
                tab.goto(url)
                tab.get_by_role("tab").nth(1).click()
                tab.locator(".examples button:visible").first.click()
                tab.locator("#whole .chat").wait_for()
                tab.wait_for_timeout(1500)  # until it has scrolled
                tab.evaluate("scrollTo(0, 0)")
                with files.new_file(Path(__file__).with_name(name)) as partial:
                    tab.screenshot(path=partial, type="png")
            browser.close()
    finally:
        demo.close(verbose=False)


if __name__ == "__main__":
    main()
