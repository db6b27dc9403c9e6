"""The figures of an evaluation, as the commands print them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dnc.evaluation import Evaluation, PixelEvaluation

if TYPE_CHECKING:
    from dnc.training.discovering import Discovery
    from dnc.training.job import Result


def results_table(title: str, results: "Sequence[Result]") -> Table:
    """A row for each set of images, whatever the task."""
    images = {one.images: one.evaluation for one in results}
    of_pixels = {
        name: found for name, found in images.items() if isinstance(found, PixelEvaluation)
    }
    if of_pixels:
        return pixel_table(title, of_pixels)
    return evaluation_table(
        title, {name: found for name, found in images.items() if isinstance(found, Evaluation)}
    )


def pixel_table(title: str, evaluations: dict[str, PixelEvaluation]) -> Table:
    """A row for each set of scenes."""
    table = Table(title=title)
    table.add_column("images")
    for column in ("number", "mIoU", "mean accuracy", "pixel accuracy"):
        table.add_column(column, justify="right")
    for name, evaluation in evaluations.items():
        shares = (evaluation.miou, evaluation.mean_accuracy, evaluation.pixel_accuracy)
        table.add_row(name, f"{evaluation.images:,}", *map(_percent, shares))
    return table


def pixel_classes_table(evaluation: PixelEvaluation) -> Table:
    """A row for each class of scenes."""
    table = Table()
    table.add_column("class", overflow="fold")
    for column in ("pixels", "IoU", "accuracy", "precision"):
        table.add_column(column, justify="right")
    for result in evaluation.per_class:
        share = f"{100 * result.pixels / evaluation.pixels:.2f} %"
        table.add_row(
            escape(result.name),
            share,
            *(
                "" if value != value else _percent(value)
                for value in (result.iou, result.accuracy, result.precision)
            ),
        )
    return table


def evaluation_table(title: str, evaluations: dict[str, Evaluation]) -> Table:
    """A row for each set of images."""
    has_top5 = any(evaluation.top5 is not None for evaluation in evaluations.values())
    table = Table(title=title)
    table.add_column("images")
    for column in ("number", "top 1", *(("top 5",) if has_top5 else ()), "mean recall"):
        table.add_column(column, justify="right")
    table.add_column("calibration error", justify="right")
    for name, evaluation in evaluations.items():
        top5 = "" if evaluation.top5 is None else _percent(evaluation.top5)
        table.add_row(
            name,
            f"{evaluation.images:,}",
            _percent(evaluation.top1),
            *((top5,) if has_top5 else ()),
            _percent(evaluation.mean_recall),
            _percent(evaluation.calibration.error),
        )
    return table


def print_weakest(console: Console, evaluation: Evaluation, *, limit: int = 5) -> None:
    """The classes that are recognised worst, and the most frequent mistakes."""
    mistaken = [result for result in evaluation.per_class if result.images and result.recall < 1]
    weakest = sorted(mistaken, key=lambda result: result.recall)[:limit]
    if not weakest:
        return
    told = ", ".join(f"{result.name} {_percent(result.recall)}" for result in weakest)
    console.print(f"Weakest classes: {told}", highlight=False, markup=False)
    mistakes = ", ".join(
        f"{mistake.true} taken for {mistake.predicted} ({mistake.images})"
        for mistake in evaluation.most_confused(limit)
    )
    console.print(f"Most frequent mistakes: {mistakes}", highlight=False, markup=False)


def discovery_text(discovery: "Discovery") -> str:
    """What was found of finer classes, in a sentence or two."""
    text = (
        f"Of {discovery.classes} finer classes the nearest training image has the right one in "
        f"{_percent(discovery.induction)}."
    )
    found = discovery.match
    if found is None:
        return text
    purity, least = _percent(found.purity), _percent(found.least_purity)
    text = f"{text} Purity of the cases {purity} (with one case a class {least})"
    if found.mutual_information is None:
        return f"{text}."
    return f"{text}, adjusted mutual information {found.mutual_information:.3f}."


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
