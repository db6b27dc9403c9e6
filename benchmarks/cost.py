"""What sub-centroids cost in memory and time, by their number and the size of the feature memory.

The paper's Table A11 has the memory of a whole training step on a GPU. Here it is what the head
takes of its own at ImageNet's shape (1,000 classes, features of 2,048 dimensions, batches of 256):
the state that it keeps, what absorbing a batch takes besides at its peak, and how long that takes.

Run `python -m benchmarks.cost`.
"""

import torch
from torch.nn.functional import normalize

from benchmarks.measure import arguments, peak_extra_bytes, report, seconds_in_turns
from dnc import SubCentroidHead
from dnc.study import paper_results

CLASSES, DIM, BATCH = 1000, 2048, 256
SETTINGS = ((1, 1000), (2, 1000), (3, 1000), (4, 1000), (4, 400), (4, 600), (4, 800))


def filled_head(subcentroids: int, batches: int) -> SubCentroidHead:
    """A head whose memory is full."""
    head = SubCentroidHead(
        DIM, CLASSES, subcentroids=subcentroids, memory_rows=batches * BATCH, only_correct=False
    )
    assert head.memory is not None
    labels = torch.arange(CLASSES)
    for step in range(head.memory.slots):
        head.memory.write(normalize(torch.randn(CLASSES, DIM), dim=1), labels, labels, step=step)
    return head


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    torch.manual_seed(0)
    printed: dict[str, list[str]] = {}
    for result in paper_results():
        if result.table == "A11":
            printed.setdefault(result.method, []).append(result.printed)
    rows: list[tuple[str, ...]] = [
        ("K", "batches", "state", "peak besides", "absorb", "paper, whole step on a GPU")
    ]
    figures = {}
    x, labels = torch.randn(BATCH, DIM), torch.randint(CLASSES, (BATCH,))
    for k, batches in SETTINGS:
        head = filled_head(k, batches)

        def absorb(head: SubCentroidHead = head) -> None:
            head.absorb(x, labels)

        state = sum(value.numel() * value.element_size() for value in head.state_dict().values())
        besides = peak_extra_bytes(absorb)
        seconds = seconds_in_turns({"absorb": absorb}, options.repeats)["absorb"]
        paper = " and ".join(printed[f"dnc K={k} memory={batches}"])
        rows.append(
            (
                str(k),
                str(batches),
                f"{state / 1e9:.2f} GB",
                f"{besides / 1e6:.0f} MB",
                f"{1000 * seconds:.0f} ms",
                f"{paper} GB",
            )
        )
        figures[f"k{k}_memory{batches}_bytes"] = state + besides
        del head
    report("What sub-centroids cost", rows, options.json, **figures)


if __name__ == "__main__":
    main()
