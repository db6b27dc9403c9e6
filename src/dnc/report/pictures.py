"""Pictures of a report: cases within a bound of bytes, charts, and the map of images and cases."""

import base64
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from dnc.explanation.cases import Case, decoded, encoded, shown_name
from dnc.explanation.pages import Shown
from dnc.recognition import Recognizer
from dnc.report.layout import Layout
from dnc.report.looking import Looked

# What pictures of cases may take; the rest of a page is small beside it.
MOST_PICTURE_BYTES = 45_000_000
PICTURED_CASES, LEGEND = 120, 30
HEIGHT = 700

CasePictures = dict[tuple[int, int], Shown]


def case_pictures(recognizer: Recognizer) -> tuple[CasePictures, int]:
    """Pictures of the cases, scaled down if all together are too large; how many were left out."""
    if recognizer.cases is None:
        return {}, 0
    cases = [case for case in recognizer.cases.cases if case.thumbnail is not None]
    too_large = sum(len(case.thumbnail or "") for case in cases) > MOST_PICTURE_BYTES
    pictures: CasePictures = {}
    left, dropped = MOST_PICTURE_BYTES, 0
    for case in cases:
        shown = _smaller(case) if too_large else Shown.of_case(case)
        left -= len(shown.uri or "")
        if left >= 0:
            pictures[case.label, case.subcentroid] = shown
        else:
            dropped += 1
    return pictures, dropped


def _smaller(case: Case) -> Shown:
    assert case.thumbnail is not None
    image = decoded(case.thumbnail)
    image.thumbnail((64, 64), Image.Resampling.LANCZOS)
    return Shown(encoded(image, "JPEG"))


def chart(figure: Figure, alt: str) -> dict[str, Any]:
    """A figure as a page shows it."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=110, format="png", metadata={"Software": None})
    width, height = (round(110 * inches) for inches in figure.get_size_inches())
    text = base64.b64encode(buffer.getvalue()).decode()
    return {
        "uri": f"data:image/png;base64,{text}",
        "alt": alt,
        "is_wide": False,
        "width": width,
        "height": height,
    }


def map_of(
    found: Layout, looked: Looked, recognizer: Recognizer, pictures: CasePictures
) -> dict[str, Any]:
    """The map as a page draws it."""
    classes = recognizer.classes
    colours = _colours(len(classes))

    def placed(place: Any) -> dict[str, float]:
        x, y = float(place[0]), float(place[1])
        return {"x": round(25 + 950 * x, 1), "y": round(25 + (HEIGHT - 50) * y, 1)}

    dots = []
    for row, place in zip(found.rows, found.row_places, strict=True):
        true, given = int(looked.labels[row]), int(looked.decision.label[row])
        told = classes[true] if true == given else f"{classes[true]} taken for {classes[given]}"
        title = f"{told}: {shown_name(looked.name(row))}"
        dots.append(
            {**placed(place), "colour": colours[true], "wrong": true != given, "title": title}
        )
    pictured = len(found.cases) <= PICTURED_CASES
    cases = []
    for (c, k), place in zip(found.cases, found.case_places, strict=True):
        picture = pictures.get((c, k), Shown(None))
        cases.append(
            {
                **placed(place),
                "colour": colours[c],
                "title": f"case {recognizer.case_name(c, k)}",
                "uri": picture.uri if pictured else None,
            }
        )
    some = len(found.rows) < len(looked) or len(found.cases) < int(
        recognizer.model.subcentroid_head.occupied.sum()
    )
    text = (
        f"{len(found.rows):,}{f' of {len(looked):,}' if some else ''} {looked.part} images "
        f"(dots; crosses were given a wrong class) and {len(found.cases):,} cases "
        f"({'pictures' if pictured else 'diamonds'}), laid out by t-SNE: what is near each "
        "other here is near in cosine, but distances between heaps mean little. Point at one "
        "for its name."
    )
    legend = [{"colour": colours[c], "name": name} for c, name in enumerate(classes)]
    return {
        "dots": dots,
        "cases": cases,
        "height": HEIGHT,
        "text": text,
        "legend": legend if len(classes) <= LEGEND else [],
    }


def _colours(number: int) -> list[str]:
    """Hues that lie far from each other for neighbouring classes."""
    return [
        f"hsl({round(360 * (c * 0.618034 % 1))} 65% {38 + 12 * (c % 2)}%)" for c in range(number)
    ]
