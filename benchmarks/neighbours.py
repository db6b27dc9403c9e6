"""The nearest training image of each test image, as the paper's induction accuracy needs it.

A bank of a million features, beside scikit-learn's brute force, which is done in parts too, and
beside the plain product of all queries with the whole bank. The aim is bounded memory: no more than
a few blocks, whatever the bank.

Run `python -m benchmarks.neighbours`.
"""

import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.measure import arguments, peak_extra_bytes, report, seconds_in_turns
from dnc.evaluation.neighbours import QUERIES, ROWS, nearest_neighbours

DIM, QUERY_ROWS = 128, 256
BANKS = (10_000, 100_000, 1_000_000)


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(QUERY_ROWS, DIM, generator=generator)
    rows: list[tuple[str, ...]] = [
        ("bank", "size", "peak besides", "time", "/ plain product", "/ scikit-learn", "same row")
    ]
    figures: dict[str, float] = {}
    for count in BANKS:
        bank = torch.randn(count, DIM, generator=generator)

        def blocks(bank: Tensor = bank) -> Tensor:
            return nearest_neighbours(queries, bank).row[:, 0]

        def plain(bank: Tensor = bank) -> Tensor:
            return (normalize(queries, dim=1) @ normalize(bank, dim=1).mT).argmax(dim=1)

        def scikit(bank: Tensor = bank) -> Tensor:
            search = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute")
            found = search.fit(bank.numpy()).kneighbors(queries.numpy(), return_distance=False)
            return torch.from_numpy(found[:, 0])

        peak = peak_extra_bytes(blocks)
        seconds = seconds_in_turns(
            {"blocks": blocks, "plain": plain, "scikit": scikit}, options.repeats
        )
        same = float((blocks() == scikit()).double().mean())
        rows.append(
            (
                f"{count:,}",
                f"{4 * bank.numel() / 1e6:.0f} MB",
                f"{peak / 1e6:.0f} MB",
                f"{1000 * seconds['blocks']:.0f} ms",
                f"{seconds['blocks'] / seconds['plain']:.2f}",
                f"{seconds['blocks'] / seconds['scikit']:.2f}",
                f"{100 * same:.0f} %",
            )
        )
        figures[f"bank{count}_peak_bytes"] = peak
        figures[f"bank{count}_seconds"] = seconds["blocks"]
    title = f"{QUERY_ROWS} queries, {DIM} dimensions, blocks of {QUERIES} x {ROWS:,}"
    report(title, rows, options.json, **figures)


if __name__ == "__main__":
    main()
