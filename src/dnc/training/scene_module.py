"""One training step of a segmenter: every position of a feature map is a row."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dnc.centroids import SubCentroidHead
from dnc.data import SceneBatch, WholeScene
from dnc.evaluation import PixelTally
from dnc.models import Segmenter
from dnc.models.segmentation import Scores
from dnc.rivals import drawn_pixels, pixel_contrast
from dnc.scene_recognition import SceneRecognizer
from dnc.training.features import in_evaluation
from dnc.training.module import AbsorbingHead, TrainingModule
from dnc.training.recipe import Recipe


class SegmenterTraining(TrainingModule[SceneBatch]):
    """Trains a segmenter: the loss is of pixels, what is absorbed are positions."""

    def __init__(self, recognizer: SceneRecognizer, recipe: Recipe) -> None:
        super().__init__(recognizer, recipe, tally=PixelTally)
        freeze_unused_(recognizer.model)

    @property
    def segmenter(self) -> Segmenter:
        """The model."""
        assert isinstance(self.model, Segmenter)
        return self.model

    def counted_rows(self, batch: SceneBatch) -> int:
        """Pixels that carry a class; a single image has no batch statistics."""
        return int((batch.labels >= 0).sum()) if len(batch) > 1 else 0

    def mean_loss(self, batch: SceneBatch) -> Tensor:
        """Cross-entropy of the scores of pixels, and of the auxiliary ones if there are any."""
        found = self.segmenter.training_scores(batch.images)
        smoothing = self.recipe.optimizer.label_smoothing
        loss = cross_entropy(found.scores, batch.labels, label_smoothing=smoothing)
        if found.auxiliary is not None:
            beside = cross_entropy(found.auxiliary, batch.labels, label_smoothing=smoothing)
            loss = loss + self.recipe.segmenter.auxiliary * beside
        labels = self.segmenter.labels_of_positions(batch.labels)
        if found.contrasted is not None:
            loss = loss + self.recipe.segmenter.contrast * self._contrast(found, labels)
        self.keep(found.features, labels, batch.ids)
        return loss

    def _contrast(self, found: Scores, labels: Tensor) -> Tensor:
        """What is left of the contrast between some positions of each class."""
        assert found.contrasted is not None
        with torch.no_grad():
            rows = self.model.head(found.features.movedim(1, -1).flatten(0, 2))
        own, counted = labels.flatten(), (labels.flatten() >= 0).nonzero()[:, 0]
        is_hard = rows.argmax(dim=1)[counted] != own[counted]
        settings = self.recipe.segmenter
        chosen = counted[drawn_pixels(own[counted], is_hard, settings.contrast_pixels)]
        x = found.contrasted.flatten(0, 2)[chosen]
        return pixel_contrast(x, own[chosen], settings.contrast_temperature)

    @property
    def rows_of_step(self) -> int:
        """Positions of a step, about: enough for every class that is in its images."""
        positions = (self.recipe.scene.crop // self.segmenter.stride) ** 2
        training = self.recipe.training
        return training.batch_size * training.accumulate * max(1, positions)

    def absorb(self, head: AbsorbingHead) -> None:
        """Positions of squares are nowhere in their images: what is tied to a place waits."""
        if not (isinstance(head, SubCentroidHead) and head.is_anchored):
            super().absorb(head)

    @torch.no_grad()
    def validation_step(self, scene: WholeScene, batch_index: int) -> None:
        """Counts the pixels that the evaluated segmenter gets right."""
        recognizer = self.recognizer
        assert isinstance(recognizer, SceneRecognizer)
        assert scene.mask is not None
        model = self.evaluated.eval()
        assert isinstance(model, Segmenter)
        labels = recognizer.with_model(model).labels(scene.image)
        self.tally.add(torch.from_numpy(labels), torch.from_numpy(scene.mask))


@torch.no_grad()
def freeze_unused_(segmenter: Segmenter) -> None:
    """Leaves layers of the network behind its last map as they came.

    No gradient ever reaches them, and several processes would wait for one.
    """
    used: set[nn.Module] = set()
    handles = [
        module.register_forward_pre_hook(lambda one, _: used.add(one))
        for module in segmenter.backbone.modules()
    ]
    parameter = next(segmenter.parameters())
    side = 2 * segmenter.multiple
    try:
        with in_evaluation(segmenter):
            segmenter.features(torch.zeros(1, 3, side, side).to(parameter))
    finally:
        for handle in handles:
            handle.remove()
    for module in segmenter.backbone.modules():
        if module not in used:
            for unused in module.parameters(recurse=False):
                unused.requires_grad_(False)
