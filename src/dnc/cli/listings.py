"""`dnc models` and `dnc recipes`: what there is to choose from."""

import fnmatch
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def models(
    pattern: Annotated[
        str | None, typer.Argument(help="A part of the name, or a pattern like 'convnext*'.")
    ] = None,
) -> None:
    """List networks: dimension of the features, parameters, and what the paper reports.

    Any name of timm works wherever a network is asked for.

    Examples:
    - `dnc models`

    - `dnc models swin`
    """
    import timm

    from dnc.errors import InvalidModel
    from dnc.models import describe, network_names, paper_parameters

    console = Console()
    names = network_names()
    if pattern is not None:
        whole = pattern if any(letter in pattern for letter in "*?[") else f"*{pattern}*"
        names = [*fnmatch.filter(names, whole), *timm.list_models(whole)]
    if not names:
        raise InvalidModel(
            f"There is no network like {pattern!r}, neither here nor in timm; give a part of its "
            "name, or a pattern with * and ?."
        )
    table = Table(title="Networks; parameters in millions, without the classifier")
    table.add_column("name", no_wrap=True, min_width=20)
    for column in ("dim", "pixels", "here", "paper, DNC", "paper, softmax"):
        table.add_column(column, justify="right")
    reported: dict[tuple[str, str], set[str]] = {}
    for fact in paper_parameters():
        reported.setdefault((fact.name, fact.method), set()).add(f"{fact.millions:.2f}")
    for name in names:
        info = describe(name)
        table.add_row(
            name,
            str(info.dim),
            str(info.input_size),
            f"{info.parameters / 1e6:.2f}",
            *(
                " / ".join(sorted(reported.get((name, method), ())))
                for method in ("dnc", "softmax")
            ),
        )
    console.print(table)
    if pattern is None:
        console.print("... and every network of timm: `dnc models 'PATTERN'` lists them.")


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe, every field.")] = None,
    fields: Annotated[
        bool, typer.Option("--fields", help="Explain every field that a recipe can have.")
    ] = False,
) -> None:
    """List the recipes that are shipped, print one, or explain the fields.

    Examples:
    - `dnc recipes`

    - `dnc recipes cifar10-laptop > mine.yaml`

    - `dnc recipes --fields`
    """
    from dnc.training.recipe import Recipe, recipe_fields
    from dnc.training.recipe_text import in_yaml, shipped_recipes

    console = Console()
    if name is not None:
        typer.echo(Recipe.read(name).to_yaml(whole=True), nl=False)
    elif fields:
        table = Table()
        table.add_column("field", no_wrap=True, min_width=30)
        table.add_column("default")
        table.add_column("meaning")
        for field in recipe_fields():
            allowed = f" ({', '.join(field.allowed)})" if field.allowed else ""
            table.add_row(field.name, in_yaml(field.default), field.description + allowed)
        console.print(table)
    else:
        table = Table("recipe", "")
        for shipped in shipped_recipes():
            table.add_row(shipped, Recipe.read(shipped).about)
        console.print(table)
