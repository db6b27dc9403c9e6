"""A browser that opens pages from disk, without a network, and notes every complaint."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@dataclass
class Opened:
    """A page, and what went wrong with it."""

    page: Page
    complaints: list[str] = field(default_factory=list)


@contextmanager
def opened(path: Path, *, width: int = 1200, scripts: bool = True) -> Iterator[Opened]:
    """Opens a file; whatever it would load from elsewhere is a complaint."""
    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, java_script_enabled=scripts
        )
        page = context.new_page()
        result = Opened(page)
        page.on("console", lambda message: result.complaints.append(message.text))
        page.on("pageerror", lambda error: result.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (result.complaints.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:"))
                else result.complaints.append(request.url)
            ),
        )
        try:
            page.goto(path.absolute().as_uri())
            yield result
        finally:
            browser.close()
