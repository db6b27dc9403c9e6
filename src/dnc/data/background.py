"""Batches that are made on request, by processes in the background if wanted."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from dnc.data.collection import BadFile
from dnc.data.order import Plan

Request = TypeVar("Request")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Answer(Generic[Made]):
    """A batch, and the files that should have been in it and cannot be decoded."""

    batch: Made
    bad_files: tuple[BadFile, ...]


class RequestLoader(Generic[Made]):
    """Batches of one epoch after another, each made from a request.

    Args:
        maker: gives the answer to a request; workers have a copy each.
        plan: which images are in which batch.
        request: from epoch, index of the batch, and positions to all that the maker must know.
        workers: processes that make batches; 0 makes them in this one.

    """

    def __init__(
        self,
        maker: Dataset[Answer[Made]],
        plan: Plan,
        *,
        request: Callable[[int, int, NDArray[np.int64]], Request],
        workers: int,
    ) -> None:
        self._requests = _Requests(plan, request)
        self._bad_files: dict[str, BadFile] = {}
        # With a generator of its own, the DataLoader leaves the global one alone.
        self._answers: DataLoader[Answer[Made]] = DataLoader(
            maker,
            batch_sampler=self._requests,
            collate_fn=_only,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_interrupts_to_parent,
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Made]:
        """The batches of the current epoch."""
        for answer in self._answers:
            for bad in answer.bad_files:
                self._bad_files.setdefault(bad.path, bad)
            yield answer.batch

    def __len__(self) -> int:
        """How many batches an epoch has, the same for all ranks."""
        return len(self._requests)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration gives."""
        self._requests.epoch = epoch

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that could not be decoded so far, each once."""
        return tuple(self._bad_files.values())


class _Requests(Sampler[list[Request]]):
    """What the workers are asked for in an epoch, a batch at a time."""

    def __init__(
        self, plan: Plan, request: Callable[[int, int, NDArray[np.int64]], Request]
    ) -> None:
        self.plan = plan
        self.request = request
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[list[Request]]:
        epoch = self.epoch
        for index, positions in self.plan.batches(epoch):
            yield [self.request(epoch, index, positions)]


def _only(answers: list[Answer[Made]]) -> Answer[Made]:
    return answers[0]


def _leave_interrupts_to_parent(worker: int) -> None:
    """Ctrl-C reaches every process; the parent alone decides what becomes of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
