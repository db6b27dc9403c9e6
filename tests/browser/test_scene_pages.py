"""Pages of scenes in a real browser: pointed at, by keyboard, with hostile names."""

import re
from dataclasses import replace

import pytest
from PIL import Image

from dnc.data import open_scenes
from dnc.explanation.scene_explanation import SceneExplanation
from dnc.explanation.scenes import SceneExplainer
from dnc.report.scene_looking import looked_at_scenes
from dnc.report.scenes import SceneReport
from tests.browser.browser import CHROMIUM, opened
from tests.browser.test_pages import HOSTILE
from tests.data.scenery import blocks, coloured, draw_scenes
from tests.explanation.scene_models import drawn_scene_recognizer

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (apt-get install chromium)"
)

CLASSES = (HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[5])
PAGES = ("explanation.html", "report.html")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model whose classes and files are named to do harm, with what is explained of it."""
    root = tmp_path_factory.mktemp("scenes")
    draw_scenes(root, 3, part="train")
    for number, name in enumerate(("<i>'4\".png", "<img src=x onerror=alert(1)>.png")):
        for folder, picture in (
            ("images", coloured(blocks(50 + number))),
            ("masks", Image.fromarray(blocks(50 + number))),
        ):
            picture.save(root / folder / "train" / name)
    draw_scenes(root, 4, part="test", seed=1, size=(96, 72))
    recognizer = replace(drawn_scene_recognizer(root), classes=CLASSES)
    scenes = open_scenes(root).test
    queries = [(f"{HOSTILE[i]}/{i}.png", scenes.read(i)) for i in range(3)]
    explanation = SceneExplanation.of(recognizer, queries)
    explanation.save(root, forms=("html",))
    explainer = SceneExplainer(recognizer)
    looked = looked_at_scenes(explainer, "test", replace(scenes, classes=CLASSES), workers=0)
    SceneReport(explainer, looked, title=HOSTILE[1]).write(root / "report.html")
    return root, explanation


def shown_cards(page):
    cards = page.locator(".point").first.locator(".beside figure").all()
    return [card for card in cards if card.is_visible()]


def shown_card(page) -> tuple[str, str]:
    """The name and the crop that are beside the first picture; there is always one."""
    (card,) = shown_cards(page)
    return card.locator(".name").first.text_content(), card.locator("use").get_attribute("href")


@pytest.mark.parametrize("which", PAGES)
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_hostile_is_executed_loaded_or_lost(made, which, scripts):
    with opened(made[0] / which, scripts=scripts) as result:
        page = result.page
        page.wait_for_timeout(200)
        assert result.complaints == []
        assert page.title() != "broken"
        assert page.locator("img[src=x]").count() == 0
        assert page.locator("h1").count() == 1
        assert page.locator("main script").count() == 0
        if scripts:
            on_page = page.locator("main").text_content() or ""
            assert CLASSES[0] in on_page
            assert "{{ 7 * 7 }}" in on_page
            assert "<img src=x onerror=alert(1)>.png" in on_page
            assert page.evaluate(
                "[...document.querySelectorAll('*')].every("
                "e => e.getAttributeNames().every(n => !n.startsWith('on')))"
            )


@pytest.mark.parametrize("which", PAGES)
@pytest.mark.parametrize("width", [400, 1600])
def test_a_page_fits_narrow_and_wide_windows(made, which, width):
    with opened(made[0] / which, width=width) as result:
        page = result.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        stage = page.locator(".stage").first
        stage.scroll_into_view_if_needed()
        box, card = stage.bounding_box(), shown_cards(page)[0].bounding_box()
        assert 250 <= box["width"] <= width
        # The card is beside the picture, or below it where there is no room.
        if width == 400:
            assert card["y"] >= box["y"] + box["height"]
        else:
            assert card["x"] >= box["x"] + box["width"]
            assert card["y"] < box["y"] + box["height"]


def test_pointing_at_a_pixel_shows_the_crop_of_the_case_that_decided_it(made):
    root, explanation = made
    one, explainer = explanation.images[0], explanation.explainer
    with opened(root / "explanation.html") as result:
        page = result.page
        stage = page.locator(".stage").first
        stage.scroll_into_view_if_needed()
        box = stage.bounding_box()
        first = explainer.name(one.cases[0].number)
        assert shown_card(page)[0] == first
        for case in one.cases[:6]:
            down, across = case.middle
            height, width = one.numbers.shape
            page.mouse.move(
                box["x"] + (across + 0.5) / width * box["width"],
                box["y"] + (down + 0.5) / height * box["height"],
            )
            name, crop = shown_card(page)
            assert name == explainer.name(case.number)
            thumbnail = explainer.case_of(case.number).thumbnail
            assert page.locator(crop).get_attribute("href") == thumbnail
            pointed = page.locator(".stage").first.locator(".region:hover")
            assert pointed.count() == 1
            assert pointed.get_attribute("href") == f"#card-1-{case.number}"
            page.wait_for_timeout(300)  # regions that are not pointed at grow pale
            paleness = page.locator(".stage").first.evaluate(
                "s => [...s.querySelectorAll('path')].map("
                "p => [p.matches(':hover'), getComputedStyle(p).fillOpacity])"
            )
            assert {tuple(one) for one in paleness} == {(True, "0"), (False, "0.5")}
        page.mouse.move(2, 2)
        assert shown_card(page)[0] == first


def test_regions_are_reached_by_keyboard_and_the_pointer_goes_first(made):
    root, explanation = made
    one, explainer = explanation.images[0], explanation.explainer
    names = [explainer.name(case.number) for case in one.cases]
    with opened(root / "explanation.html") as result:
        page = result.page
        for name in names[:3]:
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.classList.contains('region')")
            assert name in page.evaluate("document.activeElement.getAttribute('aria-label')")
            assert shown_card(page)[0] == name
        stage = page.locator(".stage").first
        box, (down, across) = stage.bounding_box(), one.cases[0].middle
        page.mouse.move(
            box["x"] + (across + 0.5) / one.numbers.shape[1] * box["width"],
            box["y"] + (down + 0.5) / one.numbers.shape[0] * box["height"],
        )
        assert shown_card(page)[0] == names[0]
        page.mouse.move(2, 2)
        assert shown_card(page)[0] == names[2]
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        target = page.locator(f"#card-1-{one.cases[2].number}")
        top = target.evaluate("t => t.getBoundingClientRect().top / innerHeight")
        assert -0.01 <= top < 1


def test_in_a_report_a_region_leads_to_its_case_in_the_gallery(made):
    with opened(made[0] / "report.html") as result:
        page = result.page
        page.evaluate("document.querySelectorAll('details.class').forEach(d => d.open = false)")
        region = page.locator(".region").first
        region.focus()
        name, crop = shown_card(page)
        target = page.locator(region.get_attribute("href"))
        assert target.locator("use").get_attribute("href") == crop
        assert not target.is_visible()
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        assert target.is_visible()
        assert target.locator(".name").first.text_content() == name
        page.fill("#search", "no such class")
        assert page.locator("details.class:visible").count() == 0


@pytest.mark.parametrize("which", PAGES)
def test_every_picture_is_named_and_whole(made, which):
    with opened(made[0] / which) as result:
        page = result.page
        for picture in page.locator("img").all():
            assert picture.get_attribute("alt")
            picture.scroll_into_view_if_needed()
            picture.evaluate("p => p.decode()")
        for crop in page.locator("svg.crop").all():
            assert crop.get_attribute("aria-label")
            assert re.fullmatch(r"#crop-\d+", crop.locator("use").get_attribute("href"))
        stored = page.locator(".store image")
        assert stored.count() == page.evaluate(
            "new Set([...document.querySelectorAll('.crop use')]"
            ".map(u => u.getAttribute('href'))).size"
        )
