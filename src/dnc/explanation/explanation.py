"""The reasons for decisions on one or several images."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from dnc.explanation.explaining import Explained, Explainer
from dnc.explanation.figures import explained_figure
from dnc.explanation.pages import explanation_page
from dnc.explanation.reasons import Reasons

AT_A_TIME = 8


@dataclass(frozen=True, repr=False)
class Explanation(Reasons):
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

    def figure(self, number: int = 0) -> Figure:
        """A picture of one of the decisions."""
        return explained_figure(self.explainer, self.images[number])

    def _described(self, number: int) -> dict[str, Any]:
        return self.explainer.to_dict(self.images[number])
