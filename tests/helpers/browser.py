"""The browser of the tests of pages."""

from pathlib import Path
from urllib.parse import urlsplit

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


@pytest.fixture
def open_tab(chromium):
    """Opens tabs. By the end of the test they must not have contacted another host or logged errors."""
    contexts, hosts, complaints = [], set(), []

    def open_one(**options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return tab

    yield open_one
    for context in contexts:
        context.close()
    assert hosts - {None} == {"127.0.0.1"}  # None: data: URLs
    assert complaints == []


def serious_violations(tab):
    """The serious accessibility violations that axe-core finds on the page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    violations = axe.Axe().run(tab).response["violations"]
    return [
        (violation["id"], node["target"])
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
