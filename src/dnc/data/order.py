"""Which images are in which batch of an epoch, and the random numbers of each image.

All of it is computed from seed, epoch and id: nothing is drawn from a generator that others use
too, and nothing depends on what was computed before.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dnc.errors import InvalidSetting

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Plan:
    """The batches of every epoch, for one of `world` processes.

    The images of an epoch are put in one order, cut into batches of `batch_size * world`, and each
    process takes a contiguous share of every batch, in the order of the ranks. Every process has
    the same number of batches, and no image comes twice. The shares of the last, shorter batch
    differ by one image at most. If that batch has fewer images than there are processes, it gets
    the missing ones from the batch before, so that nobody's share is empty; only with a batch size
    of 1, or fewer images than processes altogether, an empty share cannot be avoided.

    `drop_last` leaves out a shorter last batch, unless it is the only one.
    """

    images: int
    batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    seed: int = 0
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        """Raises unless there can be such batches."""
        if self.batch_size < 1:
            raise InvalidSetting(f"batch_size is {self.batch_size}; it must be at least 1.")
        if not 0 <= self.rank < self.world:
            raise InvalidSetting(
                f"rank is {self.rank} in a world of {self.world}; it must be in 0..world - 1."
            )

    def __len__(self) -> int:
        """How many batches an epoch has, the same for all ranks."""
        return len(self._ends())

    def batches(self, epoch: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The index of each batch of an epoch, and the positions of this process's images."""
        order = self._order(epoch)
        for index, (begin, end) in enumerate(pairwise([0, *self._ends()])):
            rows = end - begin
            first = begin + rows * self.rank // self.world
            last = begin + rows * (self.rank + 1) // self.world
            yield index, order[first:last]

    def _ends(self) -> list[int]:
        whole = self.batch_size * self.world
        ends = list(range(whole, self.images + 1, whole))
        left = self.images - (ends[-1] if ends else 0)
        if left and not (self.drop_last and ends):
            if ends and left < self.world and self.batch_size > 1:
                ends[-1] -= self.world - left
            ends.append(self.images)
        return ends

    def _order(self, epoch: int) -> NDArray[np.int64]:
        positions = np.arange(self.images)
        return (
            generator(self.seed, epoch, "order").permutation(positions)
            if self.shuffle
            else positions
        )


def generator(seed: int, epoch: int, purpose: str) -> np.random.Generator:
    """A generator of its own for each purpose in each epoch."""
    return np.random.Generator(np.random.PCG64(_key(seed, epoch, purpose)))


def hashes(seed: int, epoch: int, ids: NDArray[np.int64], *, purpose: str) -> NDArray[np.uint64]:
    """A random number of 64 bits for each image in each epoch, `(n)`."""
    with np.errstate(over="ignore"):
        spread = _mixed(ids.astype(np.uint64) * _GOLDEN)
        return _mixed(spread ^ np.uint64(_key(seed, epoch, purpose)))


def uniforms(seed: int, epoch: int, ids: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Numbers in 0..1 (1 excluded) for each image in each epoch, `(n count)`."""
    own = hashes(seed, epoch, ids, purpose="augmentation")
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
        bits = _mixed(own[:, None] + steps)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _key(seed: int, epoch: int, purpose: str) -> int:
    digest = hashlib.blake2b(f"{seed} {epoch} {purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: each bit of a value changes about half of the result's bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
