"""ContrastiveSeg: pixels of a class are drawn together, and away from those of other classes."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dnc.centroids import normalised


class PixelProjection(nn.Module):
    """Features of positions to the unit vectors that are contrasted.

    Wang et al., "Exploring Cross-Image Pixel Contrast for Semantic Segmentation" (ICCV, 2021): two
    1x1 convolutions beside a segmenter's own classifier, in training only.

    Args:
        channels: of the features.
        dim: of the vectors.

    """

    def __init__(self, channels: int, dim: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, dim, 1),
        )

    def forward(self, features: Float[Tensor, "n d h w"]) -> Float[Tensor, "n h w e"]:
        """A vector of length 1 for each position."""
        return normalised(self.layers(features).movedim(1, -1))


def drawn_pixels(
    labels: Int[Tensor, " n"], is_hard: Bool[Tensor, " n"], most: int
) -> Int[Tensor, " m"]:
    """At most so many pixels of each class, at random: half of them hard ones, if there are enough.

    A pixel is hard if it is classified wrongly at the moment. Of a class that has fewer of either
    kind than half, there are more of the other.
    """
    classes = int(labels.max()) + 1 if len(labels) else 0
    group = 2 * labels + is_hard
    sizes = torch.bincount(group, minlength=2 * classes).view(-1, 2)
    easy, hard = sizes.unbind(dim=1)
    hard_wanted = torch.minimum(hard, torch.clamp(most - easy, min=most // 2))
    easy_wanted = torch.minimum(easy, most - hard_wanted)
    wanted = torch.stack([easy_wanted, hard_wanted], dim=1).flatten()
    at_random = torch.randperm(len(labels), device=labels.device)
    order = at_random[group[at_random].argsort(stable=True)]
    begins = sizes.flatten().cumsum(0) - sizes.flatten()
    rank = torch.arange(len(order), device=order.device) - begins[group[order]]
    return order[rank < wanted[group[order]]]


def pixel_contrast(
    x: Float[Tensor, "n e"], labels: Int[Tensor, " n"], temperature: float = 0.1
) -> Float[Tensor, ""]:
    """The mean contrast of pixels: each beside others of its class, against all of other classes.

    For a pixel and another of its class it is `-log(exp(s) / (exp(s) + sum of exp(t)))`, where s is
    their cosine and t are the cosines to all pixels of other classes, divided by the temperature.
    Pixels without another of their class, or of another, have no share; without any it is 0.
    """
    similarity = x @ x.mT / temperature
    same = labels[:, None] == labels
    others = ~same
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    pairs = same & ~itself & others.any(dim=1, keepdim=True)
    against = similarity.masked_fill(same, -torch.inf).logsumexp(dim=1, keepdim=True)
    # A row of one class alone has nothing to stand against, and its logarithm no gradient.
    against = torch.where(others.any(dim=1, keepdim=True), against, torch.zeros_like(against))
    losses = torch.logaddexp(similarity, against) - similarity
    numbers = pairs.sum(dim=1)
    of_pixels = losses.masked_fill(~pairs, 0.0).sum(dim=1) / numbers.clamp(min=1)
    return of_pixels.sum() / (numbers > 0).sum().clamp(min=1)
