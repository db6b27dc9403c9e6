"""The command `dnc`: parse, delegate, print."""

from typing import Annotated

import typer
from rich.console import Console

from dnc import __version__
from dnc.cli.anchor import anchor
from dnc.cli.cases import cases
from dnc.cli.data import data
from dnc.cli.demo import demo
from dnc.cli.diff import diff
from dnc.cli.discover import discover
from dnc.cli.evaluate import evaluate
from dnc.cli.explain import explain
from dnc.cli.fit import fit
from dnc.cli.listings import models, recipes
from dnc.cli.predict import predict
from dnc.cli.report import report
from dnc.cli.study import study
from dnc.cli.train import train
from dnc.errors import DNCError

app = typer.Typer(
    help="Deep Nearest Centroids: recognition by cases.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)


def main() -> None:
    """Runs the command; what a user can mend is told in a sentence, without a traceback.

    The exit code is 0 if all went well, 1 for an error that is told, 2 for wrong arguments and 130
    if the user has interrupted.
    """
    try:
        app()
    except (DNCError, OSError) as error:
        Console(stderr=True).print(
            f"Error: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise SystemExit(1) from error
    except KeyboardInterrupt as error:
        Console(stderr=True).print("Interrupted.")
        raise SystemExit(130) from error


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"dnc {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Deep Nearest Centroids: recognition by cases."""


for command in (
    *(demo, fit, train, evaluate, predict, explain, report),
    *(diff, anchor, cases, discover, study, models, recipes),
):
    app.command()(command)
app.add_typer(data, name="data")
