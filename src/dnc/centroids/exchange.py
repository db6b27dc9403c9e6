"""What processes tell each other, so that together they do what one would do with all rows.

Each process owns a share of consecutive classes: it alone keeps their memory and clusters them.
Every process first has the rows of all, then works on its own share, then has the shares of all.
All of it travels as bytes, which every backend of torch.distributed moves, whatever the tensors
are; and sizes are agreed on before anything else, so that no process waits for what another does
not send.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Shaped, UInt8
from torch import Tensor, distributed

from dnc.centroids.validation import Rows
from dnc.errors import PeerFailed

# Most bytes that the first process receives at once while it gathers a divided memory.
GATHERED_BYTES = 1 << 26

# What a process reports in place of the number of its rows when it cannot use them.
REFUSED = -1


@dataclass(frozen=True)
class World:
    """The processes that work together, as one of them sees them."""

    rank: int
    size: int

    @classmethod
    def current(cls) -> "World":
        """The processes of the default group of torch.distributed; one if there is none."""
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls(0, 1)

    def share(self, classes: int) -> range:
        """The classes that this process owns; none if there are more processes than classes."""
        return self.share_of(self.rank, classes)

    def share_of(self, rank: int, classes: int) -> range:
        """The classes that some process owns; the numbers of two differ by at most one."""
        return range(rank * classes // self.size, (rank + 1) * classes // self.size)

    def largest_share(self, classes: int) -> int:
        """The most classes that any process owns."""
        return -(-classes // self.size)


def rows_of_own_share(
    own: Callable[[], Rows], *, classes: int, device: torch.device
) -> Rows | None:
    """Rows of all processes that carry a class of this one's share; None if no process has rows.

    They come in the order of the ranks, and the classes of the share are numbered from 0.

    Args:
        own: gives the rows that this process has, or raises if they cannot be used. Then every
            process raises, this one what `own` raised, and none goes on alone.
        classes: number of classes of all processes together.
        device: where the backend takes its tensors from.

    """
    world = World.current()
    rows = rows_of_all(own, device)
    if not len(rows.labels):
        return None
    if world.size == 1:
        return rows
    share = world.share(classes)
    mine = rows.where((rows.labels >= share.start) & (rows.labels < share.stop))
    return replace(mine, labels=mine.labels - share.start)


def rows_of_all(own: Callable[[], Rows], device: torch.device) -> Rows:
    """Rows of all processes in the order of their ranks; an error on all if one refuses its own.

    Args:
        own: gives the rows that this process has, or raises if they cannot be used.
        device: where the backend takes its tensors from.

    """
    if World.current().size == 1:
        return own()
    try:
        rows = own()
    except Exception:
        from_all(torch.tensor(REFUSED, device=device))
        raise
    counts = from_all(torch.tensor(len(rows.labels), device=device)).tolist()
    refused = [str(rank) for rank, count in enumerate(counts) if count == REFUSED]
    if refused:
        raise PeerFailed(
            f"Process {', '.join(refused)} of 0 to {len(counts) - 1} cannot use its rows, so "
            "nothing was changed on any. Look for the error that it raised."
        )
    if not any(counts):
        return rows
    tensors = list(vars(rows).values())
    received = from_all(_packed(tensors, max(counts)))
    whole = torch.cat([part[:count] for part, count in zip(received, counts, strict=True)])
    return Rows(*_unpacked(whole, tensors))


def exchange_shares_(tensors: Sequence[Shaped[Tensor, "c ..."]]) -> None:
    """Puts in the share of every other process what that process has there."""
    world, classes = World.current(), len(tensors[0])
    if world.size == 1:
        return
    share = world.share(classes)
    own = [tensor[share.start : share.stop] for tensor in tensors]
    received = from_all(_packed(own, world.largest_share(classes)))
    for rank, part in enumerate(received):
        if rank != world.rank:
            share = world.share_of(rank, classes)
            _put_(tensors, share, _unpacked(part[: len(share)], tensors))


def whole_state(state: dict[str, Tensor], classes: int) -> dict[str, Tensor] | None:
    """A state put together from the shares `(s ...)` of all: on the first process, None on others.

    With several processes it comes to main memory and in blocks of classes, since a device that
    holds one share may have no room for all of them.
    """
    world = World.current()
    if world.size == 1:
        return state
    shares, is_first = list(state.values()), world.rank == 0
    whole = [
        torch.empty(classes if is_first else 0, *part.shape[1:], dtype=part.dtype)
        for part in shares
    ]
    largest, width = world.largest_share(classes), sum(map(_bytes_each, shares))
    size = max(1, GATHERED_BYTES // (width * world.size))
    for start in range(0, largest, size):
        block = [part[start : start + size] for part in shares]
        sent = _packed(block, min(size, largest - start))
        received = [torch.empty_like(sent) for _ in range(world.size)] if is_first else None
        try:
            distributed.gather(sent, received, dst=0)
        except RuntimeError as error:
            raise _lost(error) from error
        for rank, part in enumerate(received or []):
            share = world.share_of(rank, classes)[start : start + size]
            _put_(whole, share, _unpacked(part[: len(share)], shares))
    return dict(zip(state, whole, strict=True)) if is_first else None


def as_first_(tensors: Iterable[Tensor]) -> None:
    """Gives every process what the first one has in tensors of the same shapes."""
    if World.current().size == 1:
        return
    for tensor in tensors:
        sent = tensor.contiguous().reshape(-1).view(torch.uint8)
        try:
            distributed.broadcast(sent, src=0)
        except RuntimeError as error:
            raise _lost(error) from error
        tensor.copy_(sent.view(tensor.dtype).view(tensor.shape))


def from_all(own: Shaped[Tensor, "..."]) -> Shaped[Tensor, "p ..."]:
    """A tensor of the same shape from each process."""
    received = own.new_empty(distributed.get_world_size(), *own.shape)
    try:
        distributed.all_gather(list(received.unbind()), own)
    except RuntimeError as error:
        raise _lost(error) from error
    return received


def _lost(error: RuntimeError) -> PeerFailed:
    return PeerFailed(
        f"The processes can no longer reach each other ({error}). Most likely one has ended: look "
        "for its error, and start again from the last checkpoint."
    )


def _packed(
    tensors: Sequence[Shaped[Tensor, "n ..."]], length: int
) -> UInt8[Tensor, "{length} bytes"]:
    """The bytes of all that belongs to the same row or class, side by side; then zeros."""
    padded = [tensor.new_zeros(length, tensor.shape[1:].numel()) for tensor in tensors]
    for tensor, room in zip(tensors, padded, strict=True):
        room[: len(tensor)] = tensor.reshape(len(tensor), room.shape[1])
    return torch.cat([room.view(torch.uint8) for room in padded], dim=1)


def _unpacked(
    packed: UInt8[Tensor, "n bytes"], like: Sequence[Shaped[Tensor, "_ ..."]]
) -> list[Shaped[Tensor, "n ..."]]:
    """The tensors that were packed; `like` has their types and, but for the first axis, shapes."""
    parts = packed.split([_bytes_each(tensor) for tensor in like], dim=1)
    return [
        # A copy, because numbers must begin at a multiple of their size.
        part.clone(memory_format=torch.contiguous_format)
        .view(tensor.dtype)
        .view(len(packed), *tensor.shape[1:])
        for part, tensor in zip(parts, like, strict=True)
    ]


def _bytes_each(tensor: Shaped[Tensor, "n ..."]) -> int:
    return tensor.shape[1:].numel() * tensor.element_size()


def _put_(whole: Sequence[Tensor], share: range, parts: Sequence[Tensor]) -> None:
    for tensor, part in zip(whole, parts, strict=True):
        tensor[share.start : share.stop] = part
