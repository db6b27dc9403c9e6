"""What explanations of any task share: how they are written as page, JSON and pictures."""

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from matplotlib.figure import Figure
from PIL import Image

from dnc import __version__
from dnc.explanation.figures import save_figure
from dnc.files import whole_file

Form = Literal["html", "json", "png"]
FORMAT = 1
TOLD = 10
CASES_PNG = ".cases.png"


class Teller(Protocol):
    """What has explained images."""

    def told(self, one: Any, /) -> str:
        """A decision in one line."""
        ...

    def described(self) -> dict[str, Any]:
        """The model and all its cases, for JSON."""
        ...


class Reasons(ABC):
    """Decisions on images and the reasons for them.

    Attributes:
        explainer: what has explained them.
        images: one entry for each image.
    """

    explainer: Teller
    images: Sequence[Any]

    @property
    @abstractmethod
    def html(self) -> str:
        """A page that is complete in itself."""

    @abstractmethod
    def figure(self, number: int = 0) -> Figure:
        """A picture of one of the decisions."""

    @abstractmethod
    def _described(self, number: int) -> dict[str, Any]:
        """Everything about one image, for JSON."""

    def _cases_picture(self, number: int) -> Image.Image | None:
        """The case of each pixel of one image, if the JSON names a PNG of them."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON knows it: the model, its cases, and each of the images."""
        return {
            "format": FORMAT,
            "dnc": __version__,
            "model": self.explainer.described(),
            "images": [self._described(number) for number in range(len(self.images))],
        }

    def save(
        self, folder: Path | str, *, forms: Iterable[Form] = ("html", "json", "png")
    ) -> list[Path]:
        """Writes `explanation.html`, `explanation.json`, and a PNG for each image.

        Where pixels have cases of their own, the JSON comes with a PNG of 16 bits for each image,
        in which a pixel is the index of its case in the JSON's list of cases.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for form in dict.fromkeys(forms):
            if form != "html":
                _remove_pictures(folder, of_cases=form == "json")
            if form != "png":
                text = self.html if form == "html" else _json(self.to_dict())
                files.append(folder / f"explanation.{form}")
                with whole_file(files[-1]) as unfinished:
                    unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
            for number in range(len(self.images)):
                if form == "png":
                    files.append(folder / f"{self._stem(number)}.png")
                    save_figure(self.figure(number), files[-1])
                elif form == "json" and (picture := self._cases_picture(number)) is not None:
                    files.append(folder / f"{self._stem(number)}{CASES_PNG}")
                    with whole_file(files[-1]) as unfinished:
                        picture.save(unfinished, "PNG")
        return files

    def _stem(self, number: int) -> str:
        return f"explanation-{number + 1:0{len(str(len(self.images)))}}"

    def __repr__(self) -> str:
        """The decisions in short, and how to see more."""
        lines = [self.explainer.told(image) for image in self.images[:TOLD]]
        if len(self.images) > TOLD:
            lines.append(f"... and {len(self.images) - TOLD} more")
        return "\n".join([*lines, "(save(folder) writes the reasons as HTML, JSON and PNG)"])

    def _repr_html_(self) -> str:
        """The page in a frame of its own, in which nothing is executed."""
        page = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox style="width:100%;height:50rem;border:0" '
            'title="Explanation"></iframe>'
        )


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _remove_pictures(folder: Path, *, of_cases: bool) -> None:
    """Removes the pictures of an earlier explanation, of which there may have been more."""
    ending = CASES_PNG if of_cases else ".png"
    for path in folder.glob(f"explanation-*{ending}"):
        if path.name.removeprefix("explanation-").removesuffix(ending).isdecimal():
            path.unlink()
