"""What processes do together in the tests, and how they are started, waited for and ended."""

import copy
import os
import signal
import time
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import torch
from jaxtyping import install_import_hook
from torch import distributed, multiprocessing, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from tests.conftest import CHECKER

# In the processes that are started here shapes are checked where only they go.
install_import_hook("dnc.centroids.exchange", CHECKER)

from dnc import SubCentroidHead, kmeans  # noqa: E402
from dnc.centroids import exchange  # noqa: E402
from dnc.centroids.processes import exempt_from_broadcast  # noqa: E402
from dnc.errors import DNCError  # noqa: E402

DIM = 8
PATIENCE = 240  # seconds, far more than it takes

# What takes long to import is imported once, and the processes are forked from there.
PRELOADED = ["torch.distributed", "torch._dynamo", "sklearn.base", "jaxtyping"]


@dataclass(frozen=True)
class Scenario:
    """Batches and what a head does with them."""

    classes: int = 5
    rows: int = 24
    order: str = "mixed"
    cut: str = "even"
    maps: bool = False
    reclusters: bool = False
    double: bool = False
    anchored: bool = False
    head: dict = field(default_factory=dict)

    def new_head(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        settings = {"momentum": 0.9, "only_correct": False, **self.head}
        head = SubCentroidHead(DIM, self.classes, generator=generator, **settings)
        return head.double() if self.double else head

    def batch(self, step):
        """Features, labels and ids of all processes; one class or another is absent."""
        generator = torch.Generator().manual_seed(step)
        rows = 0 if self.cut == "uneven" and step % 7 == 3 else self.rows
        x = torch.randn(rows, DIM, generator=generator)
        x = x.T.contiguous().T if step % 2 else x
        labels = torch.randint(self.classes, (rows,), generator=generator)
        if self.classes > 1:
            labels[labels == step % self.classes] = (step + 1) % self.classes
        if self.order == "sorted":
            labels = labels.sort().values
        if self.cut == "uneven" and rows:
            labels[3], x[3] = -100, torch.nan
        ids = torch.arange(rows) + 1000 * step
        if self.maps:
            x = x.reshape(-1, 2, 2, DIM).movedim(-1, 1)
            labels, ids = labels.reshape(-1, 2, 2), ids[::4]
        return x, labels, ids

    def part(self, step, rank, size):
        """What one process has of a batch."""
        batch = self.batch(step)
        length = len(batch[0])
        if self.cut == "uneven":
            generator = torch.Generator().manual_seed(step)
            inner = torch.randint(length + 1, (size - 1,), generator=generator)
            if step % 5 == 0:
                inner[:] = 0  # everything is with the last process
            cuts = [0, *inner.sort().values.tolist(), length]
        else:
            cuts = [rank * length // size for rank in range(size + 1)]
        return [of_all[cuts[rank] : cuts[rank + 1]] for of_all in batch]

    def go(self, head, steps, rank=0, size=1):
        """Lets a head absorb the batches of some steps."""
        for step in steps:
            features, labels, ids = self.part(step, rank, size)
            if self.reclusters and step == 0:
                head.start_from(features, labels)
            if self.anchored and step == 5:
                # Images of the batches that are still to come, and some that never do.
                tied = 1000 * (torch.arange(self.classes * 4) % 15 + 5) + torch.arange(
                    self.classes * 4
                )
                tied = tied.view(self.classes, 4)
                head.anchor(tied, torch.zeros(tied.shape))
            head.absorb(features, labels, ids)
            if self.reclusters and step % 5 == 4:
                head.recluster()
        return head


SCENARIOS = {
    "plain": Scenario(),
    "memory": Scenario(head={"memory_rows": 52}),
    "uneven": Scenario(cut="uneven"),
    "uneven with memory": Scenario(cut="uneven", head={"memory_rows": 50}),
    "classes apart, double precision": Scenario(order="sorted", double=True),
    "classes apart, memory in bfloat16": Scenario(
        order="sorted", head={"memory_rows": 200, "memory_dtype": torch.bfloat16}
    ),
    "more processes than classes": Scenario(
        classes=3, head={"memory_rows": 30, "subcentroids": [2, 4, 1]}
    ),
    "one class": Scenario(classes=1, cut="uneven", head={"memory_rows": 30}),
    "only correct": Scenario(cut="uneven", head={"only_correct": True, "memory_rows": 50}),
    "means of the batch": Scenario(cut="uneven", head={"batch_means": True, "memory_rows": 50}),
    "reseeding": Scenario(
        head={"assign": kmeans, "reseed_after": 2, "memory_rows": 40, "subcentroids": 8}
    ),
    "start and reclustering": Scenario(cut="uneven", reclusters=True, head={"memory_rows": 50}),
    "tied to images": Scenario(cut="uneven", anchored=True, rows=64),
    "tied to images, more processes than classes": Scenario(classes=3, anchored=True, rows=64),
    "maps": Scenario(maps=True, head={"memory_rows": 50}),
    "drawn by lot": Scenario(cut="uneven", rows=64, head={"rows_per_class": 3}),
    "pixels drawn by lot": Scenario(
        maps=True, rows=64, head={"rows_per_class": 4, "only_correct": True}
    ),
}
STEPS = range(20)
RESUMED = Scenario(cut="uneven", head={"memory_rows": 50, "reseed_after": 4})


class Network(nn.Module):
    """A network without BatchNorm, and a head on it."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.features = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, DIM))
        with torch.no_grad():
            for parameter in self.features.parameters():
                parameter.normal_(0, 0.4, generator=generator)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("mean", torch.zeros(6))
        self.head = SubCentroidHead(DIM, 4, momentum=0.9, memory_rows=40, generator=generator)

    def forward(self, images):
        features = self.features(images - self.mean) * self.scale
        return self.head(features), features


def trained(rank=0, size=1, steps=12):
    """A network after some steps, the batches of which several processes divide among them."""
    network = Network()
    exempt_from_broadcast(network)
    wrapped = DistributedDataParallel(network) if size > 1 else network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(32, 6, generator=generator).chunk(size)[rank]
        labels = torch.randint(4, (32,), generator=generator).chunk(size)[rank]
        scores, features = wrapped(images)
        optimizer.zero_grad()
        cross_entropy(scores, labels).backward()
        optimizer.step()
        network.head.absorb(features.detach(), labels)
    return network


def shared_state(head):
    """What every process has alike."""
    return {name: value for name, value in head.state_dict().items() if "memory." not in name}


def whole_state(head):
    """State of a head for a checkpoint, complete on the first process."""
    memory = head.whole_memory() or {}
    return shared_state(head) | {f"memory.{name}": value for name, value in memory.items()}


def refusals(rank, size):
    """What each process raises when rows of some cannot be used, and that nothing has changed."""
    head = RESUMED.go(RESUMED.new_head(), range(4), rank, size)
    raised, before = [], copy.deepcopy(head.state_dict())
    for step, refusing in enumerate(([size - 1], [0], range(size))):
        x, labels = torch.randn(6, DIM), torch.arange(6) % 5
        if rank in refusing:
            if step == 0:
                x[2, 3] = torch.nan
            else:
                labels[1] = 77
        for collective in (head.absorb, head.start_from):
            try:
                collective(x, labels)
                raised.append("nothing")
            except DNCError as error:
                raised.append(f"{type(error).__name__}: {error}")
    after = head.state_dict()
    unchanged = all(torch.equal(after[name], value) for name, value in before.items())
    return {
        "raised": raised,
        "unchanged": unchanged,
        **whole_state(RESUMED.go(head, range(4, 8), rank, size)),
    }


def do_all(rank, size, folder, earlier):
    """All that a world does: scenarios, resuming, refusals, training; results by name."""
    done = {}
    for name, scenario in SCENARIOS.items():
        head = scenario.go(scenario.new_head(), STEPS, rank, size)
        exchange.GATHERED_BYTES = 1 if name == "uneven with memory" else 1 << 26
        done[name] = whole_state(head)
        if head.memory is not None:
            done[name]["kept"] = list(head.memory.kept)
            done[name]["stored"] = head.memory.rows.shape[0] * head.memory.slots
            done[name]["age"] = head.health().mean_age

    head = SCENARIOS["memory"].new_head(seed=rank)
    done["different starts"] = shared_state(SCENARIOS["memory"].go(head, range(1), rank, size))

    head = RESUMED.go(RESUMED.new_head(), range(10), rank, size)
    done["first half"] = whole_state(head)
    other = RESUMED.new_head(seed=9)
    other.divide()
    other.load_state_dict(copy.deepcopy(head.state_dict()))
    done["share reloaded"] = whole_state(RESUMED.go(other, range(10, 20), rank, size))
    if earlier is not None:
        state = torch.load(earlier, weights_only=True)["first half"]
        for name, divides in (("resumed", False), ("resumed, divided first", True)):
            resumed = RESUMED.new_head(seed=9)
            if divides:
                resumed.divide()
                resumed.divide()
            resumed.load_state_dict(state)
            done[name] = whole_state(RESUMED.go(resumed, range(10, 20), rank, size))
    done["refusals"] = refusals(rank, size)
    done["as the first"] = own = {
        "floats": torch.full((2, 3), float(rank)),
        "transposed": torch.arange(6.0).view(2, 3).mT + rank,
        "flags": torch.tensor([rank == 0, rank == 1]),
        "number": torch.tensor(rank),
    }
    exchange.as_first_(own.values())
    network = trained(rank, size)
    done["network"] = dict(network.features.state_dict()) | whole_state(network.head)
    torch.save(done, folder / f"{rank}.pt")


def lose_one(rank, size, folder):
    """Absorbs until the last process kills itself; what the others raise."""
    head = RESUMED.new_head()
    try:
        for step in range(1000):
            if rank == size - 1 and step == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            RESUMED.go(head, [step], rank, size)
        raised = "nothing"
    except DNCError as error:
        raised = f"{type(error).__name__}: {error}"
    torch.save({"raised": raised, "steps": int(head.steps)}, folder / f"{rank}-lost.pt")


def live(rank, size, folder, earlier):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=PATIENCE),
    )
    do_all(rank, size, folder, earlier)
    lose_one(rank, size, folder)
    # No farewell to the group: one of its members is dead.
    os._exit(0)


def lived(size, folder: Path, earlier: Path | None = None):
    """Results of each process of a world that has come to its end in time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    processes = [
        context.Process(target=live, args=(rank, size, folder, earlier), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    assert codes == [0] * (size - 1) + [-signal.SIGKILL]
    results = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]
    for rank in range(size - 1):
        results[rank]["lost"] = torch.load(folder / f"{rank}-lost.pt", weights_only=True)
    return results
