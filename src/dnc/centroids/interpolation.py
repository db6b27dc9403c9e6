"""Values between the positions of a map: where pixels lie, and mixtures for them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dnc.centroids.similarity import BLOCK_VALUES


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


def mixed(
    values: Float[Tensor, "y x c"], rows: Sampling, columns: Sampling
) -> Float[Tensor, "h w c"]:
    """Values of positions, mixed bilinearly for the pixels between them."""
    down = rows.share[:, None, None].to(values.dtype)
    along = torch.lerp(values[rows.lower], values[rows.upper], down)
    # A product with a matrix that is mostly zero: several times faster than picking out columns.
    return columns.matrix(values.shape[1], values.dtype) @ along


def largest_between(
    scores: Float[Tensor, "y x c"], rows: Sampling, columns: Sampling
) -> Int[Tensor, "h w"]:
    """The class with the largest score at each pixel, for scores of the positions of a map."""
    bands = bands_of_rows(rows, columns, across=scores.shape[1], c=scores.shape[2], k=1)
    return torch.cat([mixed(scores, rows.part(*band), columns).argmax(dim=2) for band in bands])


def bands_of_rows(
    rows: Sampling, columns: Sampling, *, across: int, c: int, k: int
) -> list[tuple[int, int]]:
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


def mixed_at(
    values: Float[Tensor, "y x c k"],
    rows: Sampling,
    columns: Sampling,
    *,
    down: Int[Tensor, "*#pixels"],
    right: Int[Tensor, "*#pixels"],
    which: Int[Tensor, "*pixels"],
) -> Float[Tensor, "*pixels k"]:
    """Mixtures for some of the pixels, each of the `k` values of one of the `c`."""
    _, across, c, k = values.shape
    of_all = values.reshape(-1, k)

    def at(row: Tensor, column: Tensor) -> Float[Tensor, "*pixels k"]:
        # Whole rows of a matrix are copied several times faster than picked by three indices.
        place = (row * across + column) * c + which
        return of_all.index_select(0, place.flatten()).view(*place.shape, k)

    share = rows.share[down][..., None].to(values.dtype)
    above, below = rows.lower[down], rows.upper[down]
    before, after = columns.lower[right], columns.upper[right]
    left = torch.lerp(at(above, before), at(below, before), share)
    beyond = torch.lerp(at(above, after), at(below, after), share)
    return torch.lerp(left, beyond, columns.share[right][..., None].to(values.dtype))
