"""Progress bars of the commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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
