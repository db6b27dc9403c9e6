"""Runs what is missing of a study, several at a time, so that it can be stopped at any moment."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dnc.data.disk import usable_cores
from dnc.study.store import Place

SECONDS_BETWEEN_LOOKS = 1.0
# A run that is asked to stop gets so long to do it in order; its last whole epoch is safe anyway.
SECONDS_TO_STOP = 30.0
LINES_OF_A_FAILURE = 12


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error, and the last lines that it printed."""

    place: Place
    told: str


@dataclass(frozen=True)
class Progress:
    """How far a study has come.

    Attributes:
        finished: runs that are done.
        total: all runs.
        active: the runs that are going on, with the epochs that each has done.
        seconds_left: by the pace of this sitting; None before an epoch has ended.
    """

    finished: int
    total: int
    active: tuple[tuple[Place, int], ...]
    seconds_left: float | None


def default_parallel() -> int:
    """As many runs at a time as there are GPUs, or else cores: small networks fill no more."""
    return torch.cuda.device_count() or usable_cores()


def run_missing(
    places: Sequence[Place],
    *,
    parallel: int,
    threads: int = 1,
    limit_seconds: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_finished: Callable[[Place], None] | None = None,
) -> list[Failure]:
    """Runs what has no results yet, and returns what failed.

    Args:
        places: all runs of the study.
        parallel: how many at a time.
        threads: of each run. Not a matter of how many run at a time: other threads add up
            numbers in another order, and a run that is repeated would not be the same.
        limit_seconds: when it is over, the runs that go on are stopped; they can be resumed. With
            0 none is started.
        on_progress: is told every second how far everything is.
        on_finished: is told each run that is done.

    """
    different = list({place.folder: place for place in places}.values())
    waiting = [place for place in different if not place.finished]
    gpus = visible_gpus()
    if gpus:
        most = max((_devices(place) for place in waiting), default=1)
        parallel = min(parallel, len(gpus) // most)
    parallel = max(1, min(parallel, len(waiting)))
    active: dict[int, _Active] = {}
    failures: list[Failure] = []
    before = sum(place.epochs for place in different)
    began = time.monotonic()
    try:
        while waiting or active:
            if limit_seconds is not None and time.monotonic() - began >= limit_seconds:
                break
            for slot in range(parallel):
                if waiting and slot not in active:
                    active[slot] = _Active(waiting.pop(0), slot, threads, gpus)
            time.sleep(SECONDS_BETWEEN_LOOKS)
            for slot, run in list(active.items()):
                if run.process.poll() is not None:
                    run.close()
                    del active[slot]
                    if run.process.returncode or not run.place.finished:
                        failures.append(Failure(run.place, run.last_words()))
                    elif on_finished is not None:
                        on_finished(run.place)
            elapsed = time.monotonic() - began
            if on_progress is not None:
                on_progress(_progress(different, list(active.values()), failures, before, elapsed))
    finally:
        _stop(list(active.values()))
    return failures


class _Active:
    """A run that is going on in a process of its own."""

    def __init__(self, place: Place, slot: int, threads: int, gpus: list[str]) -> None:
        self.place = place
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        self.log_begins = place.log.stat().st_size if place.log.exists() else 0
        surroundings = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "PYTHONUNBUFFERED": "1",
        }
        if gpus:
            own = _devices(place)
            surroundings["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[slot * own : (slot + 1) * own])
        recipe = json.dumps(place.run.recipe.model_dump(mode="json"))
        with place.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dnc.study.worker", str(place.folder), recipe],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=surroundings,
                # Ctrl-C of the terminal is for the study, which then stops its runs one by one.
                start_new_session=True,
            )

    def last_words(self) -> str:
        """What the process printed last, and how it ended."""
        with self.place.log.open("rb") as log:
            log.seek(self.log_begins)
            lines = log.read().decode("utf-8", errors="replace").splitlines()
        code = self.process.returncode
        how = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        return "\n".join([*lines[-LINES_OF_A_FAILURE:], f"({how})"])

    def close(self) -> None:
        """Closes the pipe to the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()


def _stop(active: list[_Active]) -> None:
    for run in active:
        # Not SIGINT: shells let what runs in the background ignore it, and its children do so too.
        run.process.terminate()
    until = time.monotonic() + SECONDS_TO_STOP
    for run in active:
        try:
            run.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            run.process.kill()
            run.process.wait()
        run.close()


def _progress(
    places: list[Place],
    active: list[_Active],
    failures: list[Failure],
    epochs_before: int,
    elapsed: float,
) -> Progress:
    failed = {failure.place for failure in failures}
    counted = [place for place in places if place not in failed]
    done = sum(place.epochs for place in places)
    left = sum(place.run.recipe.training.epochs - place.epochs for place in counted)
    moved = done - epochs_before
    return Progress(
        finished=sum(place.finished for place in places),
        total=len(places),
        active=tuple((run.place, run.place.epochs) for run in active),
        seconds_left=elapsed * left / moved if moved > 0 else None,
    )


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA names them."""
    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return given.split(",")[:count] if given else [str(number) for number in range(count)]


def _devices(place: Place) -> int:
    """How many GPUs a run is to have for itself."""
    devices = place.run.recipe.training.devices
    return 1 if devices == "auto" else devices
