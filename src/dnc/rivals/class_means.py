"""DeepNCM: one mean for each class, and the nearest of them decides."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dnc.centroids.segments import Bags
from dnc.centroids.update import cluster_means
from dnc.centroids.validation import channels_last, require_settings
from dnc.rivals.rows import rows_that_came


class ClassMeanHead(nn.Module):
    """Classifies features by the squared distance to the mean of each class.

    Guerriero, Caputo and Mensink, "DeepNCM: Deep Nearest Class Mean Classifiers" (ICLR workshop,
    2018). Features are not normalised; the score of a class is minus the squared distance to its
    mean. Means are of the features as they were when they were seen: over all that ever came, or
    with a decay by which older ones count for less.

    Under torch.distributed every process calls `absorb` at the same point; the result is that of
    one process with all rows.

    Args:
        dim: dimension of the features.
        classes: number of classes.
        decay: share of a mean that stays when a batch brings rows of its class; None takes the mean
            of all rows that ever came.
        ignore_index: label of rows to leave out.

    Attributes:
        means: of each class, zero before its first row.
        rows: how many each is the mean of.

    """

    means: Float[Tensor, "c d"]
    rows: Int[Tensor, " c"]

    def __init__(
        self, dim: int, classes: int, *, decay: float | None = 0.9, ignore_index: int = -100
    ) -> None:
        super().__init__()
        require_settings(
            ("dim", dim, dim >= 1, "at least 1"),
            ("classes", classes, classes >= 1, "at least 1"),
            ("decay", decay, decay is None or 0 <= decay <= 1, "between 0 and 1, or None"),
        )
        self.dim = dim
        self.classes = classes
        self.decay = decay
        self.ignore_index = ignore_index
        self.register_buffer("means", torch.zeros(classes, dim))
        self.register_buffer("rows", torch.zeros(classes, dtype=torch.long))

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Minus the squared distance to the mean of each class.

        In evaluation a class of which no row came scores -inf: it cannot win.
        """
        x = channels_last(features, self.dim).float()
        with torch.autocast(x.device.type, enabled=False):
            lengths = x.square().sum(dim=-1, keepdim=True) + self.means.square().sum(dim=1)
            scores: Tensor = 2 * x @ self.means.mT - lengths
        return scores if self.training else scores.masked_fill(self.rows == 0, -torch.inf)

    @torch.no_grad()
    def absorb(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> None:
        """Moves the means of the classes in a batch."""
        came = rows_that_came(self, features, labels, ids, self.means.device)
        if not len(came.labels):
            return
        own = Bags.of(came.labels, self.classes)
        new, count = cluster_means(came.features.to(self.means.dtype), own).mean, own.sizes
        self.rows += count
        if self.decay is None:
            share = count / self.rows.clamp(min=1)
        else:
            share = torch.where(self.rows == count, 1.0, 1 - self.decay)
        share = torch.where(count > 0, share, 0.0).to(self.means.dtype)
        self.means.lerp_(new, share[:, None])

    def extra_repr(self) -> str:
        """The settings, for the representation of the module."""
        return f"dim={self.dim}, classes={self.classes}, decay={self.decay}"
