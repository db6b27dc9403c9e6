"""Decisions between the positions of a feature map: the nearest case of every pixel (Eq. 5).

A map of features is coarser than its image. Between its positions features are mixed bilinearly,
and the product with a case is linear in the feature: that of a pixel is the same mixture of the
products at the four positions around it. So every pixel has a nearest case of its own, and no
features of single pixels need to be computed. Where features keep their length, a long one counts
for more in the mixture than a short one.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.similarity import BLOCK_VALUES, similarities

# Below every product with a feature no longer than 1, for sub-centroids that cannot win. Not -inf,
# which times a share of 0 is NaN.
IMPOSSIBLE = -2.0


@dataclass(frozen=True)
class Sampling:
    """Where the rows (or columns) of an image lie between those of a map.

    Attributes:
        lower: the position at or before each.
        upper: the position after it, or the last one.
        share: how much of the upper one is in the mixture.
    """

    lower: Int[Tensor, " size"]
    upper: Int[Tensor, " size"]
    share: Float[Tensor, " size"]

    @classmethod
    def of(
        cls, positions: int, size: int, *, step: float, device: torch.device | str = "cpu"
    ) -> "Sampling":
        """Positions that lie `step` pixels apart, each in the middle of its pixels.

        Pixels beyond the outermost positions are as these.
        """
        at = (torch.arange(size, device=device, dtype=torch.float64) + 0.5) / step - 0.5
        at = at.clamp(0, positions - 1)
        lower = at.floor().long()
        return cls(lower, (lower + 1).clamp(max=positions - 1), (at - lower).float())

    def matrix(self, positions: int, dtype: torch.dtype) -> Float[Tensor, "size {positions}"]:
        """How much of each position is in each mixture: two numbers in a row, or one."""
        shares = self.share.new_zeros(len(self), positions)
        shares.scatter_(1, self.lower[:, None], (1 - self.share)[:, None])
        return shares.scatter_add_(1, self.upper[:, None], self.share[:, None]).to(dtype)

    def part(self, begin: int, end: int) -> "Sampling":
        """Some of the rows."""
        return Sampling(self.lower[begin:end], self.upper[begin:end], self.share[begin:end])

    def __len__(self) -> int:
        """How many rows of the image there are."""
        return len(self.lower)


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


def mixed(
    values: Float[Tensor, "y x c"], rows: Sampling, columns: Sampling
) -> Float[Tensor, "h w c"]:
    """Values of positions, mixed bilinearly for the pixels between them."""
    down = rows.share[:, None, None].to(values.dtype)
    along = torch.lerp(values[rows.lower], values[rows.upper], down)
    # A product with a matrix that is mostly zero: several times faster than picking out columns.
    return columns.matrix(values.shape[1], values.dtype) @ along


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
    bands = [
        _band(x, length, p, eligible, rows.part(*band), columns)
        for band in _bands(rows, columns, x.shape[1], p.shape[0], p.shape[1])
    ]
    return PixelDecision(
        label=torch.cat([band.label for band in bands]),
        subcentroid=torch.cat([band.subcentroid for band in bands]),
        similarity=torch.cat([band.similarity for band in bands]),
    )


def largest_between(
    scores: Float[Tensor, "y x c"], rows: Sampling, columns: Sampling
) -> Int[Tensor, "h w"]:
    """The class with the largest score at each pixel, for scores of the positions of a map."""
    bands = _bands(rows, columns, scores.shape[1], scores.shape[2], 1)
    return torch.cat([mixed(scores, rows.part(*band), columns).argmax(dim=2) for band in bands])


def _bands(rows: Sampling, columns: Sampling, across: int, c: int, k: int) -> list[tuple[int, int]]:
    """Rows of pixels that can be decided at once: begin and end of each band."""
    most_pixels = max(1, BLOCK_VALUES // (c * len(columns)))
    most_positions = max(2, BLOCK_VALUES // (c * k * across))
    lower, upper = rows.lower.tolist(), rows.upper.tolist()
    bands, begin = [], 0
    for row in range(len(rows)):
        is_full = row - begin == most_pixels or upper[row] - lower[begin] >= most_positions
        if row > begin and is_full:
            bands.append((begin, row))
            begin = row
    return [*bands, (begin, len(rows))]


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
    c, k = eligible.shape
    map_of_band = x[first : last + 1]
    similarity = similarities(map_of_band.reshape(-1, x.shape[2]), p)
    similarity = similarity.masked_fill(~eligible, IMPOSSIBLE)
    similarity = similarity.view(*map_of_band.shape[:2], c, k)

    # The best of a class at each position, mixed, is at least its best in the mixture: a bound by
    # which the class of nearly all pixels is known without looking at every sub-centroid.
    bound = mixed(similarity.amax(dim=3), rows, columns)
    most = bound.max(dim=2)
    label = most.indices
    others = bound.scatter_(2, label[..., None], -torch.inf).amax(dim=2)
    best = _mixed_at(similarity, rows, columns, of_class=label).max(dim=2)
    found, subcentroid = best.values, best.indices

    for pixels in (found < others).nonzero().split(max(1, BLOCK_VALUES // (4 * c * k))):
        down, right = pixels.unbind(dim=1)
        # Other classes whose bound is higher: few, unless a network tells nothing apart.
        row, rival = (bound[down, right] > found[down, right, None]).nonzero().unbind(dim=1)
        exact = _mixed_at_pixels(similarity, rows, columns, down[row], right[row], rival)
        best_of_rival = exact.max(dim=1)
        nearest = found[down, right].scatter_reduce(0, row, best_of_rival.values, "amax")
        wins = (best_of_rival.values == nearest[row]) & (nearest[row] > found[down, right][row])
        # In descending order of classes, so that of equal ones the lowest is written last.
        row, rival, place = (one[wins].flip(0) for one in (row, rival, best_of_rival.indices))
        label[down[row], right[row]] = rival
        subcentroid[down[row], right[row]] = place
        found[down, right] = nearest
    weight = mixed(length[first : last + 1], rows, columns)[..., 0]
    return PixelDecision(label, subcentroid, found / weight.clamp(min=torch.finfo(x.dtype).tiny))


def _mixed_at(
    similarity: Float[Tensor, "y x c k"],
    rows: Sampling,
    columns: Sampling,
    *,
    of_class: Int[Tensor, "h w"],
) -> Float[Tensor, "h w k"]:
    """Similarities of each pixel to the sub-centroids of one class, its own for each pixel."""

    def at(down: Int[Tensor, " h"], right: Int[Tensor, " w"]) -> Float[Tensor, "h w k"]:
        return similarity[down[:, None], right[None, :], of_class]

    share = rows.share[:, None, None].to(similarity.dtype)
    left = torch.lerp(at(rows.lower, columns.lower), at(rows.upper, columns.lower), share)
    right = torch.lerp(at(rows.lower, columns.upper), at(rows.upper, columns.upper), share)
    return torch.lerp(left, right, columns.share[None, :, None].to(similarity.dtype))


def _mixed_at_pixels(
    similarity: Float[Tensor, "y x c k"],
    rows: Sampling,
    columns: Sampling,
    down: Int[Tensor, " n"],
    right: Int[Tensor, " n"],
    of_class: Int[Tensor, " n"],
) -> Float[Tensor, "n k"]:
    """Similarities of single pixels to the sub-centroids of one class each."""

    def at(of_rows: Int[Tensor, " n"], of_columns: Int[Tensor, " n"]) -> Float[Tensor, "n k"]:
        return similarity[of_rows, of_columns, of_class]

    share = rows.share[down, None].to(similarity.dtype)
    above, below = rows.lower[down], rows.upper[down]
    before, after = columns.lower[right], columns.upper[right]
    left = torch.lerp(at(above, before), at(below, before), share)
    beyond = torch.lerp(at(above, after), at(below, after), share)
    return torch.lerp(left, beyond, columns.share[right, None].to(similarity.dtype))
