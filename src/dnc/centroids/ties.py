"""Which image each sub-centroid is tied to (ad-hoc explainability)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dnc.centroids.validation import require_anchors


class Ties(nn.Module):
    """The image that each sub-centroid is tied to; none, until they are tied.

    Attributes:
        ids: the image of each, -1 for none.
        similarity: cosine of that image to the sub-centroid before it was tied.

    """

    ids: Int[Tensor, "c k"]
    similarity: Float[Tensor, "c k"]

    def __init__(self, classes: int, k: int) -> None:
        super().__init__()
        self.register_buffer("ids", torch.full((classes, k), -1))
        self.register_buffer("similarity", torch.zeros(classes, k))

    @property
    def exist(self) -> Bool[Tensor, ""]:
        """Whether any sub-centroid is tied; a tensor, since asking it makes a GPU wait."""
        return (self.ids >= 0).any()

    def tie(self, ids: Tensor, similarity: Tensor, *, valid: Bool[Tensor, "c k"]) -> None:
        """Ties sub-centroids that are valid to images, no image twice in a class."""
        require_anchors(ids, similarity, valid)
        self.ids.copy_(ids)
        self.similarity.copy_(similarity.masked_fill(ids < 0, 0.0))
