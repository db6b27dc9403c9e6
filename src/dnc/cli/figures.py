"""The figures of an evaluation, as the commands print them."""

from rich.console import Console
from rich.table import Table

from dnc.evaluation import Evaluation

COLUMNS = ("images", "number", "top 1", "top 5", "balanced", "calibration error")


def evaluation_table(title: str, evaluations: dict[str, Evaluation]) -> Table:
    """A row for each set of images."""
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "images" else "right")
    for name, evaluation in evaluations.items():
        table.add_row(
            name,
            f"{evaluation.images:,}",
            _percent(evaluation.top1),
            "" if evaluation.top5 is None else _percent(evaluation.top5),
            _percent(evaluation.mean_recall),
            f"{evaluation.calibration.error:.3f}",
        )
    return table


def print_weakest(console: Console, evaluation: Evaluation, *, limit: int = 5) -> None:
    """The classes that are recognised worst, and the most frequent mistakes."""
    with_images = [result for result in evaluation.per_class if result.images]
    weakest = sorted(with_images, key=lambda result: result.recall)[:limit]
    if evaluation.top1 == 1 or not weakest:
        return
    told = ", ".join(f"{result.name} {_percent(result.recall)}" for result in weakest)
    console.print(f"Weakest classes: {told}", highlight=False, markup=False)
    mistakes = ", ".join(
        f"{mistake.true} taken for {mistake.predicted} ({mistake.images})"
        for mistake in evaluation.most_confused(limit)
    )
    console.print(f"Most frequent mistakes: {mistakes}", highlight=False, markup=False)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
