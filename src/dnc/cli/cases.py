"""`dnc cases`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dnc.cli.options import Checkpoint

if TYPE_CHECKING:
    from dnc.data import Splits
    from dnc.explanation.cases import Case, Verified
    from dnc.scene_recognition import AnyRecognizer


def cases(
    checkpoint: Checkpoint,
    of_class: Annotated[
        str | None, typer.Option("--class", "-c", help="Only the cases of this class.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all of it to a .csv or .json file.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Write the small pictures of the cases to this folder.")
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Tell which files have changed or vanished."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="The layout of DATA, if it is not recognised by itself.")
    ] = None,
) -> None:
    """List the training images (or places in them) that decide, export them, check their files.

    Each case has the image behind a sub-centroid, how similar the two were, the training images of
    its class that it stands for and how many of these are right, and the training images of any
    class that it decides and how many of these rightly. With `--verify` the exit code is 1 if a
    file has changed or vanished.

    Examples:
    - `dnc cases runs/photos`

    - `dnc cases runs/photos --verify photos/`

    - `dnc cases runs/photos -o cases.json --pictures cases/`
    """
    from dnc.data import open_data, open_scenes
    from dnc.errors import InvalidInput
    from dnc.explanation.cases import verified
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.checkpoint import load

    console = Console()
    if output is not None and output.suffix not in (".csv", ".json"):
        raise InvalidInput(f"{output} ends in {output.suffix or 'nothing'}; use .csv or .json.")
    recognizer = load(checkpoint)
    chosen = _chosen(recognizer, of_class)
    if verify is not None:
        opened: Callable[..., Splits[Any]] = open_data
        if isinstance(recognizer, SceneRecognizer):
            opened = open_scenes
        parts = opened(verify, kind=kind, validation_share=0.0, check=False).parts()
        found = verified(chosen, list(parts.values()))
        _print_verified(console, recognizer, found)
        if found.changed or found.vanished:
            raise typer.Exit(1)
        return
    if output is None and pictures is None:
        _print_table(console, recognizer, chosen)
        return
    if output is not None:
        _export(recognizer, chosen, output)
        console.print(f"Written: {output}", highlight=False, soft_wrap=True)
    if pictures is not None:
        number = _write_pictures(recognizer, chosen, pictures)
        console.print(f"Written: {number} pictures in {pictures}", highlight=False, soft_wrap=True)


def _chosen(recognizer: "AnyRecognizer", of_class: str | None) -> "list[Case]":
    from dnc.errors import InvalidInput

    _ = recognizer.model.subcentroid_head  # which a model without cases has not
    if recognizer.cases is None:
        raise InvalidInput(
            "This model does not know the training images behind its cases; `dnc anchor` with "
            "these images makes one that does."
        )
    if of_class is None:
        return list(recognizer.cases.cases)
    if of_class not in recognizer.classes:
        names = ", ".join(recognizer.classes[:10])
        more = ", ..." if len(recognizer.classes) > 10 else ""
        raise InvalidInput(f"There is no class {of_class!r}; there are {names}{more}.")
    label = recognizer.classes.index(of_class)
    return [case for case in recognizer.cases.cases if case.label == label]


def _print_table(console: Console, recognizer: "AnyRecognizer", chosen: "list[Case]") -> None:
    assert recognizer.cases is not None
    thing = "place in a training image" if any(case.at for case in chosen) else "training image"
    what = (
        f"each is a {thing}"
        if recognizer.cases.is_anchored
        else f"each is a mean; the {thing} is the nearest to it"
    )
    table = Table(title=f"{len(chosen)} {'case' if len(chosen) == 1 else 'cases'}: {what}")
    table.add_column("case", overflow="fold")
    table.add_column("file", overflow="fold", ratio=1)
    is_of_scenes = any(case.at is not None for case in chosen)
    if is_of_scenes:
        table.add_column("row, column", justify="right")
    for column in ("cosine", "stands for", "right", "decides", "right"):
        table.add_column(column, justify="right", max_width=7)
    for case in chosen:
        table.add_row(
            escape(recognizer.case_name(case.label, case.subcentroid)),
            escape(case.file),
            *([f"{case.at[0]}, {case.at[1]}" if case.at else ""] if is_of_scenes else []),
            f"{case.similarity:.3f}",
            f"{case.stands_for:,}",
            _share(case.of_these_right, case.stands_for),
            f"{case.decides:,}",
            _share(case.rightly, case.decides),
        )
    console.print(table)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _print_verified(console: Console, recognizer: "AnyRecognizer", found: "Verified") -> None:
    for what, of_these in (("changed", found.changed), ("vanished", found.vanished)):
        for case in of_these:
            name = recognizer.case_name(case.label, case.subcentroid)
            line = f"{what}: {case.file} ({name})"
            console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{len(found.unchanged)} unchanged, {len(found.changed)} changed, "
        f"{len(found.vanished)} vanished",
        highlight=False,
    )


def _export(recognizer: "AnyRecognizer", chosen: "list[Case]", output: Path) -> None:
    import json
    from dataclasses import asdict, replace

    from dnc.files import whole_file
    from dnc.training.casebase import write_case_table

    assert recognizer.cases is not None
    some = replace(recognizer, cases=replace(recognizer.cases, cases=tuple(chosen)))
    if output.suffix == ".csv":
        write_case_table(some, output)
        return
    assert some.cases is not None
    tree = asdict(some.cases)
    for row in tree["cases"]:
        row["class"] = recognizer.classes[row["label"]]
    output.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(output) as unfinished:
        unfinished.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


def _write_pictures(recognizer: "AnyRecognizer", chosen: "list[Case]", folder: Path) -> int:
    """Pictures named by number and what of the class's name can be in the name of a file."""
    import base64

    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for case in chosen:
        if case.thumbnail is not None:
            ending = "png" if "image/png" in case.thumbnail else "jpg"
            content = base64.b64decode(case.thumbnail.partition(",")[2])
            of_class = "".join(
                c for c in recognizer.classes[case.label] if c.isalnum() or c in "-_ "
            )
            name = f"{case.label:04}-{case.subcentroid}-{of_class[:40].strip()}.{ending}"
            (folder / name).write_bytes(content)
            number += 1
    return number
