"""The browser of the tests of pages."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
# The address bar of each window would run in a renderer of its own.
NO_ADDRESS_BAR = "--disable-features=WebUIOmniboxAimPopup,WebUIOmniboxPopup,InitialWebUI"


@pytest.fixture(scope="module")
def chromium():
    """A browser without a window. Skips the test where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is absent")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", NO_ADDRESS_BAR])
        yield browser
        browser.close()
