"""DeepNCA: every training image is kept, and the nearest of them decide."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dnc.centroids import normalised
from dnc.centroids.validation import channels_last, require_settings
from dnc.errors import InvalidLabels
from dnc.rivals.rows import rows_that_came

# Most similarities of queries to the bank that are there at once in evaluation (16 MB).
BLOCK_VALUES = 1 << 22


class NeighbourHead(nn.Module):
    """Classifies features by those of all training images, kept in a bank.

    Wu, Efros and Yu, "Improving Generalization via Scalable Neighborhood Component Analysis" (ECCV,
    2018). In training the score of a class is the logarithm of the sum, over all images of the
    class but the one that is looked at, of `exp(cosine / temperature)`; cross-entropy of these
    scores is the loss of neighbourhood components analysis. In evaluation the sum is over the
    nearest neighbours alone. Rows of the bank begin at random and follow the features of their
    images with a momentum.

    Call `hold` before the training. Under torch.distributed every process calls `absorb` at the
    same point; each keeps the whole bank.

    Args:
        dim: dimension of the features.
        classes: number of classes.
        bank_rows: training images.
        temperature: cosines are divided by it.
        momentum: share of a row that stays when its image comes again.
        neighbours: how many decide.
        ignore_index: label of rows to leave out.
        generator: source of the random start.

    Attributes:
        bank: a row of length 1 for each training image.
        labels: the class of each.
        ids: the image of each, in ascending order.
        is_seen: whether an image has come yet. Only such decide in evaluation.

    """

    bank: Float[Tensor, "m d"]
    labels: Int[Tensor, " m"]
    ids: Int[Tensor, " m"]
    is_seen: Tensor

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        bank_rows: int,
        temperature: float = 0.05,
        momentum: float = 0.5,
        neighbours: int = 30,
        ignore_index: int = -100,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_settings(
            ("dim", dim, dim >= 1, "at least 1"),
            ("classes", classes, classes >= 1, "at least 1"),
            ("bank_rows", bank_rows, bank_rows >= 1, "at least 1"),
            ("temperature", temperature, temperature > 0, "above 0"),
            ("momentum", momentum, 0 <= momentum < 1, "at least 0 and below 1"),
            ("neighbours", neighbours, neighbours >= 1, "at least 1"),
        )
        self.dim = dim
        self.classes = classes
        self.temperature = temperature
        self.momentum = momentum
        self.neighbours = neighbours
        self.ignore_index = ignore_index
        self.register_buffer("bank", normalised(torch.randn(bank_rows, dim, generator=generator)))
        self.register_buffer("labels", torch.zeros(bank_rows, dtype=torch.long))
        self.register_buffer("ids", torch.arange(bank_rows))
        self.register_buffer("is_seen", torch.zeros(bank_rows, dtype=torch.bool))

    def hold(self, ids: Int[Tensor, " m"], labels: Int[Tensor, " m"]) -> None:
        """Says which images the rows of the bank are, and their classes."""
        if ids.shape != self.ids.shape or labels.shape != self.ids.shape:
            raise InvalidLabels(
                f"{len(ids)} ids and {len(labels)} labels came for a bank of {len(self.ids)} rows; "
                "give one of each for every row."
            )
        order = ids.argsort()
        in_order = ids[order]
        if (in_order[1:] == in_order[:-1]).any():
            raise InvalidLabels("An image is there twice; each needs an id of its own.")
        if len(labels) and not (labels.min() >= 0 and labels.max() < self.classes):
            raise InvalidLabels(
                f"Labels from {labels.min()} to {labels.max()} came; allowed are 0 to "
                f"{self.classes - 1}."
            )
        self.ids.copy_(in_order)
        self.labels.copy_(labels[order])

    def forward(
        self, features: Float[Tensor, "n d"], ids: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n c"]:
        """Scores of each class.

        Args:
            features: of images.
            ids: of the same images in training, so that none is its own neighbour; None where none
                is in the bank.

        """
        x = channels_last(features, self.dim)
        with torch.autocast(x.device.type, enabled=False):
            x = normalised(x) / self.temperature
            if self.training:
                return self._scores_by_all(x, ids)
            size = max(1, BLOCK_VALUES // len(self.bank))
            return torch.cat([self._scores_by_nearest(some) for some in x.split(size)])

    @torch.no_grad()
    def absorb(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> None:
        """Lets the rows of the images in a batch follow their features."""
        if ids is None:
            raise InvalidLabels("The bank has a row for each image; give the ids of the images.")
        came = rows_that_came(self, features, labels, ids, self.bank.device)
        if not len(came.labels):
            return
        row = self._rows_of(came.ids)
        x = normalised(came.features).to(self.bank.dtype)
        stays = torch.where(self.is_seen[row], self.momentum, 0.0).to(x.dtype)[:, None]
        self.bank[row] = normalised(stays * self.bank[row] + (1 - stays) * x)
        self.is_seen[row] = True

    def extra_repr(self) -> str:
        """The settings, for the representation of the module."""
        return (
            f"dim={self.dim}, classes={self.classes}, bank_rows={len(self.bank)}, "
            f"temperature={self.temperature}, neighbours={self.neighbours}"
        )

    def _rows_of(self, ids: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        row = torch.searchsorted(self.ids, ids).clamp(max=len(self.ids) - 1)
        strange = self.ids[row] != ids
        if strange.any():
            raise InvalidLabels(
                f"Image {int(ids[strange][0])} is not among the {len(self.ids)} images of the "
                "bank; call hold() with all images of the training first."
            )
        return row

    def _scores_by_all(
        self, x: Float[Tensor, "n d"], ids: Int[Tensor, " n"] | None
    ) -> Float[Tensor, "n c"]:
        similarity = x @ self.bank.mT
        if ids is None:
            return _summed(similarity, self.labels.expand_as(similarity), self.classes)
        own = self._rows_of(ids)[:, None]
        similarity = similarity.scatter(1, own, -torch.inf)
        scores = _summed(similarity, self.labels.expand_as(similarity), self.classes)
        # The only image of its class has no neighbour to be near to: it says nothing.
        alone = (torch.bincount(self.labels, minlength=self.classes) == 1)[self.labels[own[:, 0]]]
        return torch.where(alone[:, None], torch.zeros_like(scores), scores)

    def _scores_by_nearest(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        similarity = (x @ self.bank.mT).masked_fill(~self.is_seen, -torch.inf)
        nearest = similarity.topk(min(self.neighbours, len(self.bank)), dim=1)
        return _summed(nearest.values, self.labels[nearest.indices], self.classes)


def _summed(
    similarity: Float[Tensor, "n m"], labels: Int[Tensor, "n m"], classes: int
) -> Float[Tensor, "n c"]:
    """Logarithm of the sum of exponentials over each class; very low for one without a row."""
    highest = similarity.amax(dim=1, keepdim=True).detach()
    highest = torch.where(highest.isfinite(), highest, 0.0)
    sums = similarity.new_zeros(len(similarity), classes)
    sums = sums.scatter_add(1, labels, (similarity - highest).exp())
    return sums.clamp(min=torch.finfo(sums.dtype).tiny).log() + highest
