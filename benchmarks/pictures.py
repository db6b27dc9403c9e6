"""The pictures in the documentation: parts of the pages that `dnc demo` writes.

`dnc demo && python -m benchmarks.pictures`; needs Chromium.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PARTS = {
    "report.png": ("report.html", "#cases"),
    "map.png": ("report.html", "#map"),
    "explanation.png": ("explanation.html", "article"),
}


def main() -> None:
    """Takes the pictures."""
    demo, images = Path("dnc-demo"), Path("docs/images")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is needed; on Debian: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 4000})
        for name, (file, part) in PARTS.items():
            page.goto((demo / file).absolute().as_uri())
            page.wait_for_timeout(500)
            page.locator(part).first.screenshot(path=images / name)
            print(images / name)
        browser.close()


if __name__ == "__main__":
    main()
