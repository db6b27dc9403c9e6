"""The figures of an evaluation, as the commands print them."""

from rich.console import Console
from rich.table import Table

from dnc.evaluation import Evaluation


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


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
