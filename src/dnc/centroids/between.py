"""Decisions between the positions of a feature map: the nearest case of every pixel (Eq. 5).

A map of features is coarser than its image. Between its positions features are mixed bilinearly,
and the product with a case is linear in the feature: that of a pixel is the same mixture of the
products at the four positions around it. So every pixel has a nearest case of its own, and no
features of single pixels need to be computed. Where features keep their length, a long one counts
for more in the mixture than a short one.

The best of a class at each position, mixed, is at least its best in the mixture: a bound, and so is
the largest of the four. Of most pixels all classes but a few are ruled out by the four positions
around, and all but one by the bounds of these few.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from dnc.centroids.interpolation import Sampling, bands_of_rows, mixed, mixed_at
from dnc.centroids.similarity import BLOCK_VALUES, similarities

# Below every product with a feature no longer than 1, for sub-centroids that cannot win. Not -inf,
# which times a share of 0 is NaN.
IMPOSSIBLE = -2.0

CANDIDATES = 4
"""Classes whose bounds are mixed for every pixel between the same four positions."""

ROUNDING = 8
"""Bounds and what they bound may be rounded differently, by this many times the precision."""


@dataclass(frozen=True)
class PixelDecision:
    """The nearest case of each pixel.

    Attributes:
        label: its class.
        subcentroid: which sub-centroid of the class it is.
        similarity: cosine to it, mixed from those of the positions around the pixel, each weighted
            by the length of the feature there.
    """

    label: Int[Tensor, "h w"]
    subcentroid: Int[Tensor, "h w"]
    similarity: Float[Tensor, "h w"]


def nearest_cases_between(
    x: Float[Tensor, "y x d"],
    p: Float[Tensor, "c k d"],
    eligible: Bool[Tensor, "c k"],
    rows: Sampling,
    columns: Sampling,
) -> PixelDecision:
    """The nearest case of each pixel of an image, by the features of a map, of any length.

    In bands of rows: of the similarities to all sub-centroids, and of the scores of pixels, no more
    than a bounded block is ever there. Equal similarities go to the lower class number, then to the
    lower sub-centroid number.
    """
    length = x.norm(dim=2, keepdim=True)
    longest = length.max().clamp(min=torch.finfo(x.dtype).tiny)
    x, length = x / longest, length / longest
    c, k = eligible.shape
    bands = [
        _band(x, length, p, eligible, rows.part(*band), columns)
        for band in bands_of_rows(rows, columns, across=x.shape[1], c=c, k=k)
    ]
    return PixelDecision(
        label=torch.cat([band.label for band in bands]),
        subcentroid=torch.cat([band.subcentroid for band in bands]),
        similarity=torch.cat([band.similarity for band in bands]),
    )


def _band(
    x: Float[Tensor, "y x d"],
    length: Float[Tensor, "y x 1"],
    p: Float[Tensor, "c k d"],
    eligible: Bool[Tensor, "c k"],
    rows: Sampling,
    columns: Sampling,
) -> PixelDecision:
    first, last = int(rows.lower[0]), int(rows.upper[-1])
    rows = Sampling(rows.lower - first, rows.upper - first, rows.share)
    positions = x[first : last + 1]
    similarity = similarities(positions.reshape(-1, x.shape[2]), p)
    similarity = similarity.masked_fill(~eligible, IMPOSSIBLE)
    similarity = similarity.view(*positions.shape[:2], *eligible.shape)
    best = similarity.amax(dim=3)

    label, rest = _most_promising(best, rows, columns)
    down = torch.arange(len(rows), device=x.device)[:, None]
    right = torch.arange(len(columns), device=x.device)
    of_label = mixed_at(similarity, rows, columns, down=down, right=right, which=label).max(dim=2)
    band = PixelDecision(label, of_label.indices, of_label.values)
    slack = ROUNDING * torch.finfo(x.dtype).eps
    unclear = (band.similarity <= rest + slack).nonzero()
    for pixels in unclear.split(max(1, BLOCK_VALUES // (4 * eligible.numel()))):
        _decide_among_all_(band, similarity, best, rows, columns, pixels, slack)
    weight = mixed(length[first : last + 1], rows, columns)[..., 0]
    band.similarity.div_(weight.clamp(min=torch.finfo(x.dtype).tiny))
    return band


def _most_promising(
    best: Float[Tensor, "y x c"], rows: Sampling, columns: Sampling
) -> tuple[Int[Tensor, "h w"], Float[Tensor, "h w"]]:
    """The class of each pixel that has the highest bound, and a bound of all others."""
    # Of the four positions around: the pixels of a cell have the same.
    around = pad(best.movedim(-1, 0)[None], (0, 1, 0, 1), value=-torch.inf)
    highest = max_pool2d(around, 2, stride=1)[0].movedim(0, -1)
    c = best.shape[2]
    candidates = highest.topk(min(CANDIDATES + 1, c), dim=2)
    classes = candidates.indices[..., :CANDIDATES]
    below, beyond = (torch.arange(n, device=best.device) for n in best.shape[:2])
    below, beyond = (below + 1).clamp(max=len(below) - 1), (beyond + 1).clamp(max=len(beyond) - 1)
    corners = (best, best[below], best[:, beyond], best[below][:, beyond])
    of_cells = torch.cat([corner.gather(2, classes) for corner in corners], dim=2)

    cell = rows.lower[:, None] * best.shape[1] + columns.lower
    of_pixels = of_cells.flatten(0, 1).index_select(0, cell.flatten()).view(*cell.shape, 4, -1)
    down, right = rows.share[:, None, None], columns.share[:, None]
    left = torch.lerp(of_pixels[:, :, 0], of_pixels[:, :, 1], down.to(best.dtype))
    other = torch.lerp(of_pixels[:, :, 2], of_pixels[:, :, 3], down.to(best.dtype))
    bound = torch.lerp(left, other, right.to(best.dtype))

    most = bound.max(dim=2, keepdim=True)
    of_cell = classes.flatten(0, 1).index_select(0, cell.flatten()).view(*cell.shape, -1)
    label = of_cell.gather(2, most.indices)[..., 0]
    rest = bound.scatter(2, most.indices, -torch.inf).amax(dim=2)
    if c > CANDIDATES:
        rest = torch.maximum(rest, candidates.values[..., -1].flatten()[cell])
    return label, rest


def _decide_among_all_(
    band: PixelDecision,
    similarity: Float[Tensor, "y x c k"],
    best: Float[Tensor, "y x c"],
    rows: Sampling,
    columns: Sampling,
    pixels: Int[Tensor, "n 2"],
    slack: float,
) -> None:
    """Decides some pixels anew, by the bounds of all classes."""
    down, right = pixels.unbind(dim=1)
    found = band.similarity[down, right]
    whole = torch.zeros_like(down)
    bound = mixed_at(best[:, :, None], rows, columns, down=down, right=right, which=whole)
    # Few, and the one that was found among them, unless a network tells nothing apart.
    row, rival = (bound >= found[:, None] - slack).nonzero().unbind(dim=1)
    exact = mixed_at(similarity, rows, columns, down=down[row], right=right[row], which=rival).max(
        dim=1
    )
    nearest = found.scatter_reduce(0, row, exact.values, "amax")
    wins = exact.values == nearest[row]
    lowest = torch.full_like(down, best.shape[2])
    lowest = lowest.scatter_reduce(0, row[wins], rival[wins], "amin")
    chosen = wins & (rival == lowest[row])  # one of each pixel
    band.label[down[row[chosen]], right[row[chosen]]] = rival[chosen]
    band.subcentroid[down[row[chosen]], right[row[chosen]]] = exact.indices[chosen]
    band.similarity[down, right] = nearest
