"""Rows of earlier batches, kept so that they take part in the clustering."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dnc.centroids.segments import class_counts, rank_in_class
from dnc.errors import InvalidSetting

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Memory(nn.Module):
    """A ring buffer of past rows for each class, all in one class-major block `(c m d)`.

    The capacity is divided evenly: each class keeps its latest `m = capacity // classes` rows, so
    that a rare class is not washed out by a frequent one, and a row's label is its place. All
    state is in buffers: a `state_dict` round trip restores it exactly, positions included.

    Several processes divide the classes among them. The memory of each then has the classes of its
    share alone, numbered from 0, and takes from a whole state that it loads what belongs to them.

    Attributes:
        classes: number of classes of all processes together.
        kept: which of them are in this memory; the first axis of all buffers.
        rows: the rows, normalised.
        ids: image id of each row, -1 if none was given.
        written_at: the step at which each row came.
        written: how many rows have ever come for each class; this is also the ring's position.

    """

    rows: Float[Tensor, "c m d"]
    ids: Int[Tensor, "c m"]
    written_at: Int[Tensor, "c m"]
    written: Int[Tensor, " c"]

    def __init__(
        self, capacity: int, dim: int, classes: int, *, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        if capacity < classes:
            raise InvalidSetting(
                f"A memory of {capacity} rows cannot hold one row of each of {classes} classes; "
                f"give at least {classes} rows, or 0 for no memory."
            )
        if dtype not in DTYPES:
            raise InvalidSetting(f"Memory dtype is {dtype}; it must be one of {DTYPES}.")
        self.classes = classes
        self.kept = range(classes)
        self.register_load_state_dict_pre_hook(_take_own_share)  # type: ignore[no-untyped-call]
        slots = capacity // classes
        self.register_buffer("rows", torch.zeros(classes, slots, dim, dtype=dtype))
        self.register_buffer("ids", torch.full((classes, slots), -1))
        self.register_buffer("written_at", torch.zeros(classes, slots, dtype=torch.long))
        self.register_buffer("written", torch.zeros(classes, dtype=torch.long))

    @property
    def slots(self) -> int:
        """Rows that each class can keep."""
        return self.rows.shape[1]

    @property
    def filled(self) -> Bool[Tensor, "c m"]:
        """Which slots hold a row."""
        slot = torch.arange(self.slots, device=self.written.device)
        return slot < self.written[:, None]

    def write(
        self,
        x: Float[Tensor, "n d"],
        labels: Int[Tensor, " n"],
        ids: Int[Tensor, " n"],
        *,
        step: int,
    ) -> None:
        """Keeps the rows in place of the oldest of their classes.

        Of a class that brings more rows than it has slots, the last ones are kept.
        """
        incoming = class_counts(labels, self.written.shape[0])
        rank = rank_in_class(labels)
        slot = (self.written[labels] + rank) % self.slots
        if (incoming > self.slots).any():
            lasts = incoming[labels] - rank <= self.slots
            x, labels, ids, slot = x[lasts], labels[lasts], ids[lasts], slot[lasts]
        self.rows[labels, slot] = x.to(self.rows.dtype)
        self.ids[labels, slot] = ids
        self.written_at[labels, slot] = step
        self.written += incoming

    def keep_only(self, share: range) -> None:
        """Keeps some consecutive classes and forgets the others; the second time, does nothing."""
        if share == self.kept:
            return
        if len(self.kept) < self.classes:
            raise InvalidSetting(
                f"The memory holds classes {_named(self.kept)} of {self.classes}, but among the "
                f"processes that run now this one is to have {_named(share)}. Make a new head and "
                "load the state that whole_memory() gave while the processes were the same."
            )
        for name, buffer in list(self.named_buffers()):
            setattr(self, name, buffer[share.start : share.stop].clone())
        self.kept = share

    def mean_age(self, step: int) -> float:
        """Mean number of steps since the rows were written; NaN for an empty memory."""
        age = (step - self.written_at)[self.filled]
        return age.float().mean().item()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Memory":
        """Moves to another device but keeps the precision it was made with."""
        dtype = self.rows.dtype
        exact = self.rows
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.rows.dtype != dtype:
            self.rows = exact.to(self.rows.device)
        return self


def _named(classes: range) -> str:
    return f"{classes.start} to {classes.stop - 1}" if classes else "none"


def _take_own_share(memory: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Leaves of a whole state, which is about to be loaded, the classes that the memory keeps."""
    assert isinstance(memory, Memory)
    for name, _buffer in memory.named_buffers(prefix=prefix.removesuffix(".")):
        loaded = state.get(name)
        if isinstance(loaded, Tensor) and loaded.shape[:1] == (memory.classes,):
            state[name] = loaded[memory.kept.start : memory.kept.stop]
