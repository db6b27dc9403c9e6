"""Pages in a real browser: opened from disk, with hostile names, narrow and wide, by keyboard."""

from dataclasses import replace

import numpy as np
import pytest

from dnc.report.comparison import require_comparable
from dnc.report.differing import Difference
from dnc.report.writing import Report
from tests.browser.browser import CHROMIUM, opened
from tests.data.drawings import drawing
from tests.explanation.models import drawn_recognizer
from tests.report.models import made_features, made_images, made_looked, made_recognizer

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (apt-get install chromium)"
)

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"><script>document.title='broken'</script>",
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }} {% raw %} &amp; &lt;b&gt;",
    "🐶🏳️‍🌈 emoji",
    "x" * 300,
    "long words " * 27 + "end",
    "مرحبا بالعالم \u202eabc",
    "javascript:alert(1)//",
    "犬 </title></style></pre><h1>h",
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report, an explanation and a comparison of a model whose names are an attack."""
    folder = tmp_path_factory.mktemp("pages")
    names = [f"{HOSTILE[i % len(HOSTILE)]}/{i}.png" for i in range(12 * len(HOSTILE))]
    trained = made_images(HOSTILE, 12, seed=1, names=names)
    features = made_features(trained, noise=0.4, seed=2)
    recognizer = made_recognizer(trained, features)
    tested = made_images(HOSTILE, 6, seed=2, names=names[: 6 * len(HOSTILE)])
    tested.pixels[0] = trained.pixels[100]
    looked = made_looked(recognizer, "test", tested, made_features(tested, noise=0.4, seed=3))
    report = Report(
        recognizer, looked, made_looked(recognizer, "train", trained, features), title=HOSTILE[0]
    )
    report.write(folder / "report.html")
    other = made_recognizer(trained, made_features(trained, noise=0.6, seed=5), seed=3)
    require_comparable(recognizer, other)
    second = made_looked(other, "test", tested, made_features(tested, noise=0.4, seed=6))
    Difference((HOSTILE[0], HOSTILE[1]), (recognizer, other), (looked, second)).write(folder)
    return folder


@pytest.fixture(scope="module")
def explanation(tmp_path_factory):
    root = tmp_path_factory.mktemp("explained")
    for label in range(5):
        folder = root / "images" / f"{label} {HOSTILE[3] if label else '<b>&'}".replace("/", "_")
        folder.mkdir(parents=True)
        for number in range(6):
            drawing(label, number).save(folder / f"<i>'{number}\".png")
    recognizer = drawn_recognizer(root / "images")
    hostile = tuple(HOSTILE[:5])
    queries = [np.asarray(drawing(label, 50)) for label in range(5)]
    replace(recognizer, classes=hostile).explain(queries).save(root, forms=("html",))
    return root / "explanation.html"


def all_pages(pages, explanation):
    return [pages / "report.html", pages / "diff.html", explanation]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_hostile_is_executed_loaded_or_lost(pages, explanation, which, scripts):
    path = all_pages(pages, explanation)[which]
    with opened(path, scripts=scripts) as result:
        page = result.page
        page.wait_for_timeout(200)
        assert result.complaints == []
        assert page.title() != "broken"
        assert page.locator("img[src=x]").count() == 0
        assert page.locator("h1").count() == 1
        assert page.locator("main script").count() == 0
        if scripts:
            on_page = page.locator("main").text_content() or ""
            assert HOSTILE[0] in on_page
            assert "{{ 7 * 7 }}" in on_page or which == 2
            assert page.evaluate(
                "[...document.querySelectorAll('*')].every("
                "e => e.getAttributeNames().every(n => !n.startsWith('on')))"
            )


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("width", [400, 1600])
def test_a_page_fits_narrow_and_wide_windows(pages, explanation, which, width):
    path = all_pages(pages, explanation)[which]
    with opened(path, width=width) as result:
        assert result.page.evaluate("document.documentElement.scrollWidth") <= width
        for picture in result.page.locator("img").all()[:20]:
            picture.scroll_into_view_if_needed()
            box = picture.bounding_box()
            assert box is not None
            assert 20 <= box["width"] <= width


@pytest.mark.parametrize("which", range(3))
def test_every_picture_has_an_alternative_text_and_is_whole(pages, explanation, which):
    with opened(all_pages(pages, explanation)[which]) as result:
        for picture in result.page.locator("img").all():
            assert picture.get_attribute("alt")
            picture.scroll_into_view_if_needed()
            picture.evaluate("p => p.decode()")


def test_the_search_box_finds_classes_and_says_how_many(pages):
    with opened(pages / "report.html") as result:
        page = result.page
        assert page.locator("details.class:visible").count() == len(HOSTILE)
        page.fill("#search", "EMOJI")
        assert page.locator("details.class:visible").count() == 1
        assert page.locator("#found").text_content() == f"1 of {len(HOSTILE)} classes"
        page.fill("#search", "")
        assert page.locator("details.class:visible").count() == len(HOSTILE)


def test_without_scripts_a_report_is_read_all_the_same(pages):
    with opened(pages / "report.html", scripts=False) as result:
        assert not result.page.locator("#search").is_visible()
        assert result.page.locator("details.class").count() == len(HOSTILE)
        assert result.page.locator(".card img").first.is_visible()


def test_a_page_is_used_by_keyboard(pages):
    with opened(pages / "report.html") as result:
        page = result.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.tagName"))
        assert {"A", "INPUT", "SUMMARY"} <= seen
        folded = page.locator("summary", has_text="Every class in figures")
        folded.focus()
        page.keyboard.press("Enter")
        assert page.locator("table").first.is_visible()


def test_a_link_to_a_case_leads_to_it_even_where_it_is_folded(pages):
    with opened(pages / "report.html") as result:
        page = result.page
        page.evaluate("document.querySelectorAll('details.class').forEach(d => d.open = false)")
        link = page.locator("#mistakes a[href^='#case-']").first
        target = page.locator(link.get_attribute("href"))
        assert not target.is_visible()
        link.click()
        page.wait_for_timeout(100)
        assert target.is_visible()
        top = target.evaluate("t => t.getBoundingClientRect().top / innerHeight")
        assert -0.01 <= top < 1
