"""What a study says: mean, spread and standard error of each row, and its distance to another."""

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dnc.files import whole_file
from dnc.study.definition import Study
from dnc.study.paper import PaperResult
from dnc.study.store import Place

PERCENT = (
    *("top1", "top5", "mean_recall", "calibration_error", "induction", "purity"),
    *("miou", "mean_accuracy", "pixel_accuracy"),
)
# What the table has of the sub-centroids at the end of a run, where it is not nothing: the head of
# the column, and what it means.
HEALTH = {
    "pairwise_cosine": ("cosine inside a class", "the mean cosine between those of a class"),
    "rival_cosine": ("to a rival", "from each to the nearest one of another class"),
    "cosine_to_mean": ("to its mean", "to the mean of its training images"),
    "least_cosine_to_mean": ("least to its mean", "the least of these"),
    "agreement": (
        "with its nearest",
        "the share of training images that are with the nearest one of their class",
    ),
    "empty_subcentroids": ("empty", "how many have no images"),
}
COUNTS = ("empty_subcentroids",)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: of the values.
        spread: their standard deviation; None for one value.
        error: standard error of the mean; None for one value.
        count: how many values there are.
    """

    mean: float
    spread: float | None
    error: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """The mean of some values and how sure it is."""
        spread = statistics.stdev(values) if len(values) > 1 else None
        error = None if spread is None else spread / len(values) ** 0.5
        return cls(statistics.fmean(values), spread, error, len(values))


@dataclass(frozen=True)
class RowSummary:
    """One row of a study.

    Attributes:
        name: of the row.
        values: the metric by seed, of the runs that are finished and have it.
        metric: over these; None before one is.
        also: the study's further metrics over the runs that have them.
        difference: to the reference, over the seeds that both have; None for the reference itself.
        seconds_per_step: over these.
        health: what is known of the sub-centroids at the end of the runs: means over these, and
            the least of what is a least one.
        missing: seeds whose run is not finished, or has no such figure.
    """

    name: str
    values: dict[int, float]
    metric: Estimate | None
    also: dict[str, Estimate]
    difference: Estimate | None
    seconds_per_step: Estimate | None
    health: dict[str, float]
    missing: tuple[int, ...]


def summarised(study: Study, places: Sequence[Place]) -> list[RowSummary]:
    """A summary of each row, from the runs that are finished."""
    results: dict[str, dict[int, dict[str, Any]]] = {}
    seeds: dict[str, list[int]] = {}
    for place in places:
        found, row = place.results, place.run.row
        seeds.setdefault(row, []).append(place.run.seed)
        results.setdefault(row, {})
        if found is not None:
            results[row][place.run.seed] = found
    compared = compared_images(study, places)
    values = {row: _by_seed(runs, compared, study.metric) for row, runs in results.items()}
    reference = values.get(study.reference or "", {})
    return [
        RowSummary(
            row,
            values[row],
            _estimate(list(values[row].values())),
            {
                metric: Estimate.of(list(of_seeds.values()))
                for metric in study.also
                if (of_seeds := _by_seed(by_seed, compared, metric))
            },
            None if row == study.reference else _difference(values[row], reference),
            _estimate([result["seconds_per_step"] for result in by_seed.values()]),
            _health(list(by_seed.values())),
            tuple(seed for seed in seeds[row] if seed not in values[row]),
        )
        for row, by_seed in results.items()
    ]


def _by_seed(results: Mapping[int, Any], images: str, metric: str) -> dict[int, float]:
    """A metric of the runs that have it."""
    if metric == "hours":  # of training, whatever it is evaluated on
        return {seed: result["seconds"] / 3600 for seed, result in results.items()}
    return {
        seed: float(value)
        for seed, result in results.items()
        if (value := result["results"].get(images, {}).get(metric)) is not None
    }


def compared_images(study: Study, places: Sequence[Place]) -> str:
    """The images that the rows are compared by: as the study says, or the first that runs have."""
    if study.images is not None:
        return study.images
    found = (name for place in places for name in (place.results or {"results": {}})["results"])
    return next(found, "test")


def markdown(study: Study, rows: Sequence[RowSummary], images: str) -> str:
    """The table of a study, with what makes it; `images` are those that rows are compared by."""
    percent = study.metric in PERCENT
    unit = ", %" if percent else ""
    columns = [f"{study.metric}{unit}", "spread", "seeds"]
    if study.reference is not None:
        columns.append(f"minus {study.reference}")
    if study.published is not None:
        columns.append(f"*paper, {study.published.dataset}*")
    also = [metric for metric in study.also if any(metric in row.also for row in rows)]
    for metric in also:
        columns.append(f"{metric}{', %' if metric in PERCENT else ''}")
        if study.published is not None and metric in study.published.also:
            columns.append(f"*paper, {study.published.also[metric]}*")
    columns.append("ms per step")
    health = [name for name in HEALTH if any(row.health.get(name) for row in rows)]
    columns += [HEALTH[name][0] for name in health]
    lines = [
        f"# {study.name}",
        "",
        *([study.about, ""] if study.about else []),
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for row in rows:
        planned = len(row.values) + len(row.missing)
        cells = [
            _with_error(row.metric, percent=percent),
            _number(row.metric.spread if row.metric else None, percent=percent),
            f"{len(row.values)} of {planned}" if row.missing else str(planned),
        ]
        if study.reference is not None:
            cells.append(_with_error(row.difference, percent=percent, sign=True))
        if study.published is not None:
            cells.append(_as_printed(study.published.result(row.name)))
        for metric in also:
            cells.append(_with_error(row.also.get(metric), percent=metric in PERCENT))
            if study.published is not None and metric in study.published.also:
                cells.append(_as_printed(study.published.result(row.name, also=metric)))
        cells.append(f"{1000 * row.seconds_per_step.mean:.0f}" if row.seconds_per_step else "")
        cells += [_figure(name, row.health.get(name)) for name in health]
        lines.append(f"| {_in_a_cell(row.name)} | " + " | ".join(cells) + " |")
    told = (
        f"{study.metric} on the {images} images: mean over the seeds ± its standard error; spread "
        "is the standard deviation"
    )
    told += "; differences are taken seed by seed." if study.reference is not None else "."
    lines += ["", told]
    if rows and all(len(row.values) <= 1 for row in rows):
        lines += ["", "One seed alone cannot tell a difference from chance; --seeds adds some."]
    if study.published is not None:
        beside = (study.published.result(row.name) for row in rows)
        tables = dict.fromkeys(result.table for result in beside if result is not None)
        lines += [
            "",
            f"*In italics: what the paper prints (table {', '.join(tables)}: "
            f"{study.published.metric} on {study.published.dataset}), with its standard deviation "
            "where it has one. Those runs were the authors', at their scale.*",
        ]
    finished = any(row.seconds_per_step for row in rows)
    if finished and not any(row.metric for row in rows):
        lines += ["", f"No finished run has {study.metric} on the {images} images."]
    if health:
        meanings = "; ".join(HEALTH[name][1] for name in health)
        lines += ["", f"Of the sub-centroids at the end: {meanings}."]
    return "\n".join(lines) + "\n"


def write_csv(places: Sequence[Place], path: Path) -> None:
    """Every finished run: row, seed, all metrics of all its images, time, health, folder."""
    table = []
    for place in places:
        found = place.results
        if found is not None:
            metrics = {
                f"{images} {name}": value
                for images, metrics in found["results"].items()
                for name, value in metrics.items()
            }
            table.append(
                {
                    "row": place.run.row,
                    "seed": place.run.seed,
                    **metrics,
                    "steps": found["steps"],
                    "seconds": found["seconds"],
                    "seconds_per_step": found["seconds_per_step"],
                    **found["health"],
                    "folder": place.folder.name,
                }
            )
    columns = list(dict.fromkeys(name for line in table for name in line))
    with whole_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(table)


def _as_printed(result: PaperResult | None) -> str:
    """A number of the paper, told apart from those that were measured."""
    return "" if result is None else f"*{result.printed}*"


def _difference(values: dict[int, float], reference: dict[int, float]) -> Estimate | None:
    """Seed by seed: what a seed does to both rows cancels."""
    return _estimate([values[seed] - reference[seed] for seed in values if seed in reference])


def _estimate(values: list[float]) -> Estimate | None:
    return Estimate.of(values) if values else None


def _health(results: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for result in results:
        for name, value in result["health"].items():
            found.setdefault(name, []).append(float(value))
    return {
        name: min(values) if name.startswith("least_") else statistics.fmean(values)
        for name, values in found.items()
    }


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}".removesuffix(".0") if name in COUNTS else f"{value:.3f}"


def _in_a_cell(name: str) -> str:
    return " ".join(name.split()).replace("|", r"\|")


def _number(value: float | None, *, percent: bool, sign: bool = False) -> str:
    if value is None:
        return ""
    form = "+" if sign else ""
    return f"{100 * value:{form}.2f}" if percent else f"{value:{form}.4f}"


def _with_error(estimate: Estimate | None, *, percent: bool, sign: bool = False) -> str:
    if estimate is None:
        return ""
    mean = _number(estimate.mean, percent=percent, sign=sign)
    error = _number(estimate.error, percent=percent)
    return f"{mean} ± {error}" if error else mean
