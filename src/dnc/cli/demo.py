"""`dnc demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import TaskID
from rich.table import Table

from dnc.cli.bars import new_bar

if TYPE_CHECKING:
    from dnc.demo import DemoReport


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", file_okay=False, help="Folder for the report and results.json."
        ),
    ] = Path("dnc-demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Same seed, same numbers.")] = 0,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the training images; 10 and more make sense.")
    ] = 20,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing; only write the files.")
    ] = False,
) -> None:
    """Train on handwritten digits beside softmax and classic methods, and report on the model.

    Needs no download and takes less than a minute.
    """
    from dnc.demo import run_demo

    console = Console(quiet=quiet)
    with new_bar(console) as progress:
        tasks: dict[str, TaskID] = {}

        def on_step(method: str, steps: int) -> None:
            if method not in tasks:
                tasks[method] = progress.add_task(method, total=steps)
            progress.advance(tasks[method])

        report = run_demo(output, seed=seed, epochs=epochs, on_step=on_step)
    _print_report(console, report)


def _print_report(console: Console, report: "DemoReport") -> None:
    table = Table(title=f"{report.test_images} handwritten digits never seen in training")
    table.add_column("method")
    for column in ("accuracy", "seconds", "stored vectors"):
        table.add_column(column, justify="right")
    for result in report.results:
        table.add_row(
            result.method,
            f"{100 * result.accuracy:.2f} %",
            f"{result.seconds:.2f}",
            f"{result.stored_vectors}",
        )
    console.print(table)
    console.print("Every decision of the first row has a reason that one can look at:")
    for path in report.pages:
        console.print(f"  {path}", markup=False, highlight=False, soft_wrap=True)
