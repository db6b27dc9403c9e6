"""`dnc fit`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from dnc.cli.options import Device, Kind, Overwrite, Workers

if TYPE_CHECKING:
    from dnc.training.left_out import Choice


def fit(
    data: Annotated[Path, typer.Argument(help="Folder of images, or a CSV of paths and labels.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model and its evaluation.")
    ] = Path("runs/fit"),
    network: Annotated[
        str, typer.Option("--network", "-n", help="A pretrained network; see `dnc models`.")
    ] = "efficientnet-lite0",
    weights: Annotated[Path | None, typer.Option(help="A file of weights for the network.")] = None,
    start_from: Annotated[
        Path | None, typer.Option("--from", help="Use the network of this checkpoint instead.")
    ] = None,
    subcentroids: Annotated[
        str,
        typer.Option(
            "--subcentroids",
            "-k",
            metavar="auto|INTEGER",
            help="Cases of each class (K); auto: as many as suit images left out best.",
        ),
    ] = "auto",
    assign: Annotated[
        Literal["sinkhorn", "kmeans"],
        typer.Option(help="Balanced clusters, or free ones."),
    ] = "sinkhorn",
    centring: Annotated[
        Literal["none", "standard", "whitened"],
        typer.Option(help="What is taken out of the features: see docs/algorithm.md."),
    ] = "whitened",
    size: Annotated[int | None, typer.Option(min=8, help="Pixels of a side.")] = None,
    kind: Kind = None,
    validation_share: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="To evaluate on where no set is given.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of the split.")] = 0,
    coarse: Annotated[
        str | None,
        typer.Option(
            help="Coarse classes in the place of finer ones: a CSV file with the columns fine and "
            "coarse, or `folders`; then `dnc discover`."
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for computed features [a cache of your account].")
    ] = None,
    workers: Workers = None,
    device: Device = "cpu",
    overwrite: Overwrite = False,
) -> None:
    """Make a classifier of your images without any training: seconds to minutes.

    The network stays as it is; its features of each class are clustered until nothing changes.
    Features are kept, so that another try with other settings takes seconds.

    Examples:
    - `dnc fit photos/`

    - `dnc fit photos/ -k 8 --assign kmeans -o runs/eight`
    """
    from dnc.cli.bars import counted
    from dnc.cli.figures import evaluation_table, print_weakest
    from dnc.training.fitting import FitSettings, fit_folder

    console = Console()
    settings = FitSettings(
        network=network,
        weights=weights,
        start_from=start_from,
        subcentroids=_number(subcentroids),
        assign=assign,
        centring=centring,
        size=size,
        kind=kind,
        validation_share=validation_share,
        seed=seed,
        coarse=coarse,
    )
    with counted(console, "features") as on_progress:
        report = fit_folder(
            data,
            output,
            settings,
            cache=cache or _account_cache(),
            workers=workers,
            device=device,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    for bad in report.set_aside:
        console.print(f"Set aside: {bad.path}: {bad.reason}", style="yellow", markup=False)
    if len(report.choice.losses) > 1:
        console.print(_told(report.choice), highlight=False)
    if report.coarse is not None:
        console.print(f"{report.coarse}. `dnc discover` tells what was found of the finer ones.")
    title = f"{report.training_images:,} images, {report.cases} cases, nothing trained"
    console.print(evaluation_table(title, {report.evaluated_on: report.evaluation}))
    print_weakest(console, report.evaluation)
    if report.evaluated_on == "train":
        console.print("These are the very images that the cases were taken from.", style="yellow")
    console.print(f"Model: {output}", highlight=False, soft_wrap=True)


def _number(given: str) -> "int | Literal['auto']":
    if given == "auto":
        return "auto"
    if not given.isdecimal() or not int(given):
        raise typer.BadParameter(
            f"{given!r} is not a number of cases; give auto, or 1 or more.",
            param_hint="--subcentroids",
        )
    return int(given)


def _told(choice: "Choice") -> str:
    losses = ", ".join(f"{loss:.3f} with {number}" for number, loss in choice.losses.items())
    return (
        f"Cases of each class: {choice.subcentroids} (cross-entropy on images left out: {losses})."
    )


def _account_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dnc" / "features"
