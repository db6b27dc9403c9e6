"""Times of rival pieces of code taken in turns, and the memory that a piece of code takes."""

import argparse
import json
import os
import platform
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def seconds_in_turns(pieces: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each piece; they take turns, so that noise falls on all alike."""
    for piece in pieces.values():
        piece()
    taken: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(repeats):
        for name, piece in pieces.items():
            began = time.perf_counter()
            piece()
            taken[name].append(time.perf_counter() - began)
    return {name: median(times) for name, times in taken.items()}


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that were made inside and are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if _is_tensor(t)}
        made = func(*args, **(kwargs or {}))
        for tensor in filter(_is_tensor, tree_leaves(made)):
            storage = tensor.untyped_storage()
            if storage._cdata not in inputs | self.known:
                self._watch(storage)
        return made

    def _watch(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self.known.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)

        def forget() -> None:
            self.known.discard(key)
            self.live -= size

        weakref.finalize(storage, forget)


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def peak_extra_bytes(piece: Callable[[], object]) -> int:
    """Most bytes that tensors made by a piece of code held at one time."""
    with _LiveBytes() as counted:
        piece()
    return counted.peak


def arguments(description: str) -> argparse.Namespace:
    """The options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=9, help="turns that are timed (default 9)")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    return options


def report(
    title: str, rows: Sequence[tuple[str, ...]], path: Path | None, **figures: float
) -> None:
    """Prints a small table and, if a path is given, writes the figures as JSON."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(title)
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    if path:
        machine = {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "cores": os.cpu_count(),
            "processor": platform.machine(),
        }
        path.write_text(
            json.dumps({"title": title, "machine": machine, **figures}, indent=2) + "\n"
        )
