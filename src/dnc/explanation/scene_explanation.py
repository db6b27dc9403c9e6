"""The reasons for the classes of pixels of one or several images."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from dnc.errors import InvalidInput
from dnc.explanation.reasons import CASES_PNG, Reasons
from dnc.explanation.scene_figures import scene_figure
from dnc.explanation.scene_pages import scenes_page
from dnc.explanation.scenes import ExplainedScene, SceneExplainer, case_picture
from dnc.explanation.segmented import SceneModel
from dnc.models import Views


@dataclass(frozen=True, repr=False)
class SceneExplanation(Reasons):
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

    def figure(self, number: int = 0) -> Figure:
        """A picture of one of the segmentations."""
        return scene_figure(self.explainer, self.images[number])

    def _described(self, number: int) -> dict[str, Any]:
        return self.explainer.to_dict(
            self.images[number], cases_png=f"{self._stem(number)}{CASES_PNG}"
        )

    def _cases_picture(self, number: int) -> Image.Image:
        return case_picture(self.images[number])
