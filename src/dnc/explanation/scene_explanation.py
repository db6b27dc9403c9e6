"""The reasons for the classes of pixels of one or several images: page, JSON and pictures."""

import html
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from dnc import __version__
from dnc.errors import InvalidInput
from dnc.explanation.explanation import Form
from dnc.explanation.figures import save_figure
from dnc.explanation.scene_figures import scene_figure
from dnc.explanation.scene_pages import scenes_page
from dnc.explanation.scenes import ExplainedScene, SceneExplainer, case_picture
from dnc.explanation.segmented import SceneModel
from dnc.files import whole_file
from dnc.models import Views

FORMAT = 1
CASES_PNG = ".cases.png"


@dataclass(frozen=True, repr=False)
class SceneExplanation:
    """Segmentations and their reasons.

    Attributes:
        explainer: what has explained them.
        images: one entry for each image.
    """

    explainer: SceneExplainer
    images: tuple[ExplainedScene, ...]

    @classmethod
    def of(
        cls,
        recognizer: SceneModel,
        images: Iterable[tuple[str, Image.Image]],
        *,
        views: Views | None = None,
        on_done: Callable[[int], None] | None = None,
    ) -> "SceneExplanation":
        """Explains RGB images that come with their names; `on_done` is told how many are done.

        Args:
            recognizer: a segmenter of sub-centroids.
            images: names and images.
            views: how it looks at them; None as in evaluation.
            on_done: called after each image.
        """
        explainer = SceneExplainer(recognizer)
        made = []
        for source, image in images:
            made.append(explainer.explained(recognizer.segmented(source, image, views=views)))
            if on_done is not None:
                on_done(len(made))
        return cls(explainer, tuple(made))

    @property
    def html(self) -> str:
        """A page that is complete in itself."""
        if not self.images:
            raise InvalidInput("There is no image to show; explain at least one.")
        return scenes_page(self.explainer, self.images)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON knows it; the case of each pixel is in the PNG that it names."""
        return {
            "format": FORMAT,
            "dnc": __version__,
            "model": self.explainer.described(),
            "images": [
                self.explainer.to_dict(image, cases_png=f"{self._stem(number)}{CASES_PNG}")
                for number, image in enumerate(self.images)
            ],
        }

    def figure(self, number: int = 0) -> Figure:
        """A picture of one of the segmentations."""
        return scene_figure(self.explainer, self.images[number])

    def save(
        self, folder: Path | str, *, forms: Iterable[Form] = ("html", "json", "png")
    ) -> list[Path]:
        """Writes `explanation.html`, `explanation.json`, and pictures of each image.

        With the JSON comes a PNG of 16 bits for each image, in which a pixel is the index of the
        case that has decided it in the JSON's list of cases.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        wanted = list(dict.fromkeys(forms))
        _remove_pictures(folder)
        files = []
        for form in wanted:
            if form != "png":
                text = self.html if form == "html" else self._json()
                files.append(folder / f"explanation.{form}")
                with whole_file(files[-1]) as unfinished:
                    unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        for number, image in enumerate(self.images):
            if "png" in wanted:
                files.append(folder / f"{self._stem(number)}.png")
                save_figure(self.figure(number), files[-1])
            if "json" in wanted:
                files.append(folder / f"{self._stem(number)}{CASES_PNG}")
                with whole_file(files[-1]) as unfinished:
                    case_picture(image).save(unfinished, "PNG")
        return files

    def _stem(self, number: int) -> str:
        return f"explanation-{number + 1:0{len(str(len(self.images)))}}"

    def _json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"

    def __repr__(self) -> str:
        """The decisions in short, and how to see more."""
        lines = [self.explainer.told(image) for image in self.images[:10]]
        if len(self.images) > len(lines):
            lines.append(f"... and {len(self.images) - len(lines)} more")
        return "\n".join([*lines, "(save(folder) writes the reasons as HTML, JSON and PNG)"])

    def _repr_html_(self) -> str:
        """The page in a frame of its own, in which nothing is executed."""
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox style="width:100%;height:50rem;border:0" '
            'title="Explanation"></iframe>'
        )


def _remove_pictures(folder: Path) -> None:
    """Removes the pictures of an earlier explanation, of which there may have been more."""
    for path in folder.glob("explanation-*.png"):
        name = path.name.removeprefix("explanation-").removesuffix(".png").removesuffix(".cases")
        if name.isdecimal():
            path.unlink()
