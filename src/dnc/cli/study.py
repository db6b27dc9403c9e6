"""`dnc study`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dnc.study import Failure, Place, Run, Study


def study(
    file: Annotated[
        str, typer.Argument(help="A study: a YAML file, or a shipped one by name; or `list`.")
    ],
    data: Annotated[
        str | None, typer.Argument(help="Folder of images, or a CSV, in any layout dnc knows.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, plots and all runs.")
    ] = Path("runs/studies"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds, in place of the study's own.")
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option("--parallel", "-p", min=1, help="Runs at a time [one for each core or GPU]."),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Of each run; another number is like another seed.")
    ] = 1,
    limit_minutes: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop after this time; the same command goes on. 0 only writes what there is.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which runs are done and which are missing.")
    ] = False,
    scale: Annotated[
        Literal["laptop", "paper"],
        typer.Option(help="The study as it is, or with the paper's own networks and data sets."),
    ] = "laptop",
    show: Annotated[bool, typer.Option("--show", help="Print the study's file.")] = False,
) -> None:
    """Compare settings over seeds: trains what is missing, then writes table, CSV and plot.

    A study may be stopped at any moment, even by `kill -9`; the same command goes on. A run that is
    finished is never repeated, whichever study it was for. The file has a `name`, a `recipe`,
    `settings` for all rows, `rows` and a `grid`, `seeds`, a `metric`, `images` and a `reference`.

    Examples:
    - `dnc study list`

    - `dnc study digits-subcentroids --limit-minutes 5`

    - `dnc study digits-subcentroids --show > mine.yaml`

    - `dnc study mine.yaml photos/ --dry-run`

    - `dnc study table-1 cifar10/ --scale paper`
    """
    from dnc.errors import InvalidStudy
    from dnc.study import Study, places, study_path, write_study

    console = Console()
    if file == "list":
        console.print(_listing(), _paper_listing())
        return
    if show:
        typer.echo(study_path(file).read_text(encoding="utf-8"), nl=False)
        return
    for part in (output, *output.parents):
        if part.exists() and not part.is_dir():
            raise InvalidStudy(f"{part} is a file; give a folder with --output.")
    chosen = Study.read(file).at_scale(scale)
    if seeds is not None:
        chosen = chosen.model_copy(update={"seeds": tuple(range(seeds))})
    runs = chosen.planned(data)
    if dry_run:
        _print_plan(console, chosen, runs, output / "runs")
        return
    if not _have_images(runs):
        raise InvalidStudy(f"Study {chosen.name} needs images: dnc study {file} DATA.")
    found = places(runs, output / "runs", compared=chosen.images)
    missing = len({place.folder for place in found if not place.finished})
    console.print(
        f"{chosen.name}: {_number_of(len(chosen.all_rows()), 'row')}, "
        f"{_number_of(len(chosen.seeds), 'seed')}, "
        f"{_number_of(len({place.folder for place in found}), 'run')}, {missing} of them missing",
        highlight=False,
    )
    failures = _run(console, found, parallel, threads, limit_minutes) if missing else []
    left = len({place.folder for place in found if not place.finished}) - len(failures)
    table = write_study(chosen, found, output / chosen.name)
    console.print(table, highlight=False, markup=False, soft_wrap=True)
    console.print(f"Written: {output / chosen.name}", highlight=False, soft_wrap=True)
    for failure in failures:
        run = failure.place.run
        console.print(f"Failed: {run.row}, seed {run.seed}", style="red", markup=False)
        console.print(f"{failure.told}\n  all of it: {failure.place.log}", markup=False)
    if left:
        how = (
            "The same command goes on." if limit_minutes else "Without the limit of 0 they are run."
        )
        told = f"Still missing: {_number_of(left, 'run')}. {how}"
        console.print(told, style="yellow", highlight=False)
    if failures:
        raise typer.Exit(1)


def _have_images(runs: "Sequence[Run]") -> bool:
    return all(run.recipe.data.path or run.recipe.data.kind == "digits" for run in runs)


def _print_plan(console: Console, chosen: "Study", runs: "Sequence[Run]", store: Path) -> None:
    """Says what there is to run, and what of it is done if the images are there to tell by."""
    from dnc.errors import InvalidData
    from dnc.study import places

    # Looking fetches nothing.
    here = [run.with_values({"data.download": False}) for run in runs]
    try:
        if not _have_images(here):
            raise InvalidData("none were given")
        found = places(here, store, compared=chosen.images)
        lines = [(f"{_state(place):18}", place.run) for place in found]
        missing = len({place.folder for place in found if not place.finished})
        told = f"{_number_of(missing, 'run')} missing"
    except InvalidData as error:
        lines = [("", run) for run in runs]
        told = f"what is done can be told once its images are there ({error})"
    rows, seeds = _number_of(len(chosen.all_rows()), "row"), _number_of(len(chosen.seeds), "seed")
    console.print(f"{chosen.name}: {rows}, {seeds}; {told}", highlight=False, markup=False)
    for state, run in lines:
        console.print(f"  {state}{run.row}, seed {run.seed}", highlight=False, markup=False)


def _state(place: "Place") -> str:
    if place.finished:
        return "done"
    return f"begun, {_number_of(place.epochs, 'epoch')}" if place.epochs else "missing"


def _number_of(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _run(
    console: Console,
    found: "tuple[Place, ...]",
    parallel: int | None,
    threads: int,
    limit_minutes: float | None,
) -> "list[Failure]":
    from dnc.cli.bars import StudyBars
    from dnc.study import default_parallel, run_missing

    try:
        with StudyBars(console) as bars:
            return run_missing(
                found,
                parallel=parallel or default_parallel(),
                threads=threads,
                limit_seconds=None if limit_minutes is None else 60 * limit_minutes,
                on_progress=bars.show,
                on_finished=bars.finished,
            )
    except KeyboardInterrupt as stopped:
        console.print("Interrupted. The same command goes on.", highlight=False)
        raise SystemExit(130) from stopped


def _listing() -> Table:
    from dnc.study import Study, shipped_studies

    table = Table("study", "question", "rows", "seeds")
    table.columns[0].no_wrap = True
    for name in shipped_studies():
        shipped = Study.read(name)
        table.add_row(name, shipped.about, str(len(shipped.all_rows())), str(len(shipped.seeds)))
    return table


def _paper_listing() -> Table:
    from dnc.study import paper_map

    table = Table("paper", "what", "made by", title="The paper's tables and figures")
    for made in paper_map():
        table.add_row(made.item, made.what, made.command)
    return table
