"""Re-clustering a whole memory, beside the paper's pseudo-code and one read of that memory.

Run `python -m benchmarks.clustering`.
"""

import torch
from torch.nn.functional import normalize

from benchmarks.measure import arguments, peak_extra_bytes, report, seconds_in_turns
from dnc import SubCentroidHead
from tests.oracles import updated_by_loop

CLASSES, SUBCENTROIDS, DIM, ROWS = 1000, 4, 2048, 25_600


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    torch.manual_seed(0)
    head = SubCentroidHead(DIM, CLASSES, subcentroids=SUBCENTROIDS, memory_rows=ROWS)
    assert head.memory is not None
    slots = head.memory.slots
    labels = torch.arange(CLASSES).repeat(slots)
    for step, part in enumerate(labels.split(CLASSES)):
        x = normalize(torch.randn(CLASSES, DIM), dim=1)
        head.memory.write(x, part, torch.arange(CLASSES), step=step)
    rows = head.memory.rows.flatten(0, 1)
    own_class = torch.arange(CLASSES).repeat_interleave(slots)

    def per_class_loop() -> torch.Tensor:
        return updated_by_loop(
            head.centroids,
            rows,
            own_class,
            head.valid,
            momentum=head.momentum,
            choose=lambda plan, _: plan.argmax(dim=1),
        )

    expected = per_class_loop()
    head.recluster()
    different = (head.centroids - expected).abs().amax().item()

    quick = seconds_in_turns({"read": rows.sum, "recluster": head.recluster}, options.repeats)
    slow = seconds_in_turns({"loop": per_class_loop, "recluster": head.recluster}, 2)
    extra = peak_extra_bytes(head.recluster) / (rows.numel() * rows.element_size())
    speedup, reads = slow["loop"] / slow["recluster"], quick["recluster"] / quick["read"]
    report(
        f"Re-clustering {len(rows):,} rows: c {CLASSES}, k {SUBCENTROIDS}, d {DIM}",
        [
            ("", "measured", "aim"),
            ("per-class loop / recluster", f"{speedup:.0f}", "at least 50"),
            ("recluster / one read of the memory", f"{reads:.2f}", "at most 4"),
            ("extra memory / memory", f"{100 * extra:.1f} %", "at most 10 %"),
            ("recluster", f"{1000 * quick['recluster']:.1f} ms", ""),
            ("one read", f"{1000 * quick['read']:.1f} ms", ""),
            ("per-class loop", f"{slow['loop']:.2f} s", ""),
            ("largest difference from the loop", f"{different:.0e}", ""),
        ],
        options.json,
        loop_over_recluster=speedup,
        recluster_over_read=reads,
        extra_memory=extra,
    )


if __name__ == "__main__":
    main()
