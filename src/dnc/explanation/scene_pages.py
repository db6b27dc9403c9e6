"""Pages of explained scenes, on which one points at a region and sees the case behind it."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup
from PIL import Image

from dnc import __version__
from dnc.explanation.cases import PICTURE, encoded
from dnc.explanation.pages import Shown, environment
from dnc.explanation.regions import outlines
from dnc.explanation.scene_pictures import (
    page_size,
    scaled_image,
    with_cases,
    with_classes,
)
from dnc.explanation.scenes import (
    DecidingCase,
    ExplainedScene,
    SceneExplainer,
    class_shares,
    hexadecimal,
)

UNFOLDED = 12
TALLEST = 42  # of a picture at which one points, in letters


def scenes_page(explainer: SceneExplainer, explained: Sequence[ExplainedScene]) -> str:
    """Scenes and their reasons as a page; no script, nothing that is loaded from elsewhere."""
    images = []
    for number, one in enumerate(explained, start=1):
        links = {case.number: f"card-{number}-{case.number}" for case in one.cases}
        cards = [
            {**case_card(explainer, case), "id": links[case.number], **place_of(explainer, case)}
            for case in one.cases
        ]
        images.append(
            {
                **pointing(explainer, one, links=links),
                "id": number,
                "pictures": [
                    {"title": "the picture", "picture": plain_picture(one)},
                    {"title": "its classes", "picture": class_picture(explainer, one)},
                ],
                "legend": legend(explainer, one),
                "cards": cards[:UNFOLDED],
                "folded": cards[UNFOLDED:],
                "folded_share": sum(case.share for case in one.cases[UNFOLDED:]),
            }
        )
    deciding = {case.number for one in explained for case in one.cases}
    return rendered_scenes(
        "scenes.html",
        styles=("base.css", "scenes.css"),
        most_regions=max(len(one.cases) for one in explained),
        images=images,
        crops=crops(explainer, sorted(deciding)),
        total=len(explainer.places),
        classes=len({label for label, _ in explainer.places}),
        nature=nature_of_cases(explainer),
        is_anchored=explainer.is_anchored,
    )


def rendered_scenes(
    template: str, *, styles: Sequence[str], most_regions: int, **context: Any
) -> str:
    """A template filled in, with the rules by which pointing at a region shows its case."""
    page = environment()
    css = [*(page.get_template(name).render() for name in styles), pointing_rules(most_regions)]
    filled = page.get_template(template)
    return filled.render(styles=Markup("\n".join(css)), version=__version__, **context)


def pointing_rules(count: int) -> str:
    """For the regions of any image, by their rank: the one that is pointed at shows its card.

    Where one region has the focus and the pointer is over another, the pointer counts.
    """
    return "\n".join(
        f".point:has(.r{rank}:hover) .beside figure.k{rank}, "
        f".point:not(:has(.region:hover)):has(.r{rank}:focus) .beside figure.k{rank} "
        "{ display: block; }"
        for rank in range(count)
    )


def pointing(
    explainer: SceneExplainer, one: ExplainedScene, *, links: dict[int, str]
) -> dict[str, Any]:
    """An image whose regions can be pointed at; `links` are the ids that they lead to."""
    image = one.segmentation.image
    found = outlines(one.numbers)
    overlay = with_cases(image, one.segmentation.labels, one.numbers, explainer.colours)
    return {
        "source": one.segmentation.source,
        "width": image.width,
        "height": image.height,
        "overlay": page_picture(overlay),
        "box": f"0 0 {found.width:g} {found.height:g}",
        "letters": f"{(found.width * found.height) ** 0.5 / 27:.1f}",
        "across": f"{min(1.0, image.width / image.height) * TALLEST:.1f}",
        "deciding": len(one.cases),
        "regions": [
            {
                "rank": rank,
                "path": found.paths[case.number],
                "link": links[case.number],
                "case": explainer.name(case.number),
                "share": case.share,
                "similarity": case.similarity,
            }
            for rank, case in enumerate(one.cases)
            if case.number in found.paths
        ],
        "marks": [
            {
                "number": number,
                "x": round((case.middle[1] + 0.5) / found.step, 1),
                "y": round((case.middle[0] + 0.5) / found.step, 1),
            }
            for number, case in one.marks
        ],
        "beside": [case_card(explainer, case) for case in one.cases],
    }


def case_card(explainer: SceneExplainer, case: DecidingCase) -> dict[str, Any]:
    """What a page says of a case that has decided pixels of an image."""
    known = explainer.case_of(case.number)
    return {
        "crop": has_crop(explainer, case.number),
        "index": case.number,
        "name": explainer.name(case.number),
        "class_name": explainer.recognizer.classes[case.label],
        "colour": hexadecimal(explainer.colours[case.number - 1]),
        "share": case.share,
        "pixels": case.pixels,
        "similarity": case.similarity,
        "file": None if known is None else known.file,
        "at": None if known is None else known.at,
    }


def place_of(explainer: SceneExplainer, case: DecidingCase) -> dict[str, Any]:
    """What a page says of the training place behind a case."""
    known = explainer.case_of(case.number)
    if known is None:
        return {"known": False}
    return {
        "known": True,
        "sha256": known.sha256,
        "stands_for": known.stands_for,
        "of_these_right": known.of_these_right,
        "similarity_to_place": known.similarity,
    }


def crops(explainer: SceneExplainer, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """The pictures of cases, which a page holds once, however often it shows them."""
    found = []
    for number in numbers:
        case = explainer.case_of(number)
        if case is not None and has_crop(explainer, number):
            found.append({"index": number, "uri": case.thumbnail})
    return found


def has_crop(explainer: SceneExplainer, number: int) -> bool:
    """Whether there is a picture of a case, and it is in the text itself."""
    case = explainer.case_of(number)
    return (
        case is not None
        and case.thumbnail is not None
        and PICTURE.fullmatch(case.thumbnail) is not None
    )


def legend(explainer: SceneExplainer, one: ExplainedScene) -> list[dict[str, Any]]:
    """The classes of an image with their colours and shares, the largest first."""
    recognizer = explainer.recognizer
    return [
        {
            "name": recognizer.classes[label],
            "colour": hexadecimal(recognizer.colours[label]),
            "share": share,
        }
        for label, share in class_shares(one)
    ]


def nature_of_cases(explainer: SceneExplainer) -> str:
    """What a case is."""
    if explainer.recognizer.cases is None:
        return "The places in training images behind the cases are not known to this model."
    if explainer.is_anchored:
        return (
            "Each case is a place in a training image, as the network sees it; the ring marks it, "
            "and what is shown is what has decided."
        )
    return (
        "Each case is a moving mean of places in training images, and it is the mean that decides; "
        "the crop stands for it, around the place that is nearest to it, marked by a ring."
    )


def plain_picture(one: ExplainedScene) -> Shown:
    """The image itself."""
    image = one.segmentation.image
    return page_picture(scaled_image(image, page_size(image.size)))


def class_picture(explainer: SceneExplainer, one: ExplainedScene) -> Shown:
    """The classes over the image."""
    found = one.segmentation
    return page_picture(with_classes(found.image, found.labels, explainer.recognizer.colours))


def page_picture(image: Image.Image) -> Shown:
    """A picture as it is."""
    return Shown(encoded(image, "JPEG"), image.width, image.height)
