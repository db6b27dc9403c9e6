"""Progress bars of the commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dnc.durations import duration

if TYPE_CHECKING:
    from dnc.study import Place
    from dnc.study import Progress as StudyProgress

Told = Callable[[int, int], None]


def new_bar(console: Console) -> Progress:
    """A bar with the time that has passed and the time that is left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


@contextmanager
def counted(console: Console, what: str) -> Iterator[Told]:
    """A function to be told how much is done, of how much; it moves a bar."""
    bar = new_bar(console)
    task = bar.add_task(what, total=None)

    def told(done: int, total: int) -> None:
        bar.start()  # only now: an error before is no progress
        bar.update(task, completed=done, total=total)

    try:
        yield told
    finally:
        bar.stop()


class StudyBars:
    """How far a study is: bars on a terminal, elsewhere a line for each run that is finished."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.whole = self.bar.add_task("study", total=1, unit="runs")
        self.tasks: dict[Path, TaskID] = {}
        self.left = ""

    def __enter__(self) -> "StudyBars":
        """Shows the bars."""
        self.bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Takes them away."""
        self.bar.stop()

    def show(self, state: "StudyProgress") -> None:
        """Moves all bars."""
        if state.seconds_left is not None:
            self.left = f", {duration(state.seconds_left)} left"
        self.bar.update(
            self.whole,
            description=f"study{self.left}",
            completed=state.finished,
            total=state.total,
        )
        epochs = {place.folder: (place, done) for place, done in state.active}
        for folder in [folder for folder in self.tasks if folder not in epochs]:
            self.bar.remove_task(self.tasks.pop(folder))
        for folder, (place, done) in epochs.items():
            if folder not in self.tasks:
                name = f"{place.run.row}, seed {place.run.seed}"
                total = place.run.recipe.training.epochs
                self.tasks[folder] = self.bar.add_task(escape(name), total=total, unit="epochs")
            self.bar.update(self.tasks[folder], completed=done)

    def finished(self, place: "Place") -> None:
        """Tells what a run has come to."""
        results = place.results
        assert results is not None
        metric = place.run.recipe.metric
        found = {images: metrics[metric] for images, metrics in results["results"].items()}
        told = ", ".join(f"{images} {100 * share:.2f} %" for images, share in found.items())
        run, taken = place.run, duration(results["seconds"])
        line = f"{run.row}, seed {run.seed}: {told} (trained for {taken}){self.left}"
        self.console.print(line, highlight=False, markup=False)
