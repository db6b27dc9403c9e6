"""The reasons for decisions on one or several images: as a page, as JSON and as pictures."""

import html
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure
from PIL import Image

from dnc import __version__
from dnc.explanation.explaining import Explained, Explainer
from dnc.explanation.figures import explained_figure, save_figure
from dnc.explanation.pages import explanation_page
from dnc.files import whole_file

Form = Literal["html", "json", "png"]
FORMAT = 1
AT_A_TIME = 8


@dataclass(frozen=True, repr=False)
class Explanation:
    """Decisions and their reasons.

    Attributes:
        explainer: what has explained them.
        images: one entry for each image.
    """

    explainer: Explainer
    images: tuple[Explained, ...]

    @classmethod
    def of(
        cls,
        explainer: Explainer,
        images: Iterable[tuple[str, Image.Image]],
        *,
        with_maps: bool = True,
        on_done: Callable[[int], None] | None = None,
    ) -> "Explanation":
        """Explains images that come with their names; `on_done` is told how many are done."""
        made: list[Explained] = []
        waiting = iter(images)
        while some := list(islice(waiting, AT_A_TIME if with_maps else 4 * AT_A_TIME)):
            made += explainer.explained(some, with_maps=with_maps)
            if on_done is not None:
                on_done(len(made))
        return cls(explainer, tuple(made))

    @property
    def html(self) -> str:
        """A page that is complete in itself."""
        return explanation_page(self.explainer, self.images)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON knows it: the cases, and of each image its similarity to all."""
        return {
            "format": FORMAT,
            "dnc": __version__,
            "model": self.explainer.described(),
            "images": [self.explainer.to_dict(image) for image in self.images],
        }

    def figure(self, number: int = 0) -> Figure:
        """A picture of one of the decisions."""
        return explained_figure(self.explainer, self.images[number])

    def save(
        self, folder: Path | str, *, forms: Iterable[Form] = ("html", "json", "png")
    ) -> list[Path]:
        """Writes `explanation.html`, `explanation.json`, and a PNG for each image."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for form in dict.fromkeys(forms):
            if form == "png":
                _remove_pictures(folder)
                digits = len(str(len(self.images)))
                for number in range(len(self.images)):
                    files.append(folder / f"explanation-{number + 1:0{digits}}.png")
                    save_figure(self.figure(number), files[-1])
                continue
            files.append(folder / f"explanation.{form}")
            with whole_file(files[-1]) as unfinished:
                unfinished.write_text(self._text(form), encoding="utf-8", errors="backslashreplace")
        return files

    def _text(self, form: Form) -> str:
        if form == "html":
            return self.html
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
        if path.stem.removeprefix("explanation-").isdecimal():
            path.unlink()
