"""What is written of a study: a table in Markdown, every run in a CSV, a plot."""

from collections.abc import Sequence
from pathlib import Path

from dnc.durations import duration
from dnc.files import whole_file
from dnc.study.definition import Study
from dnc.study.pictures import rows_figure
from dnc.study.store import Place
from dnc.study.summary import compared_images, markdown, summarised, write_csv


def write_study(study: Study, places: Sequence[Place], folder: Path) -> str:
    """Writes `table.md`, `runs.csv` and `rows.png` of the finished runs; the table."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(places, folder / "runs.csv")
    rows, images = summarised(study, places), compared_images(study, places)
    text = markdown(study, rows, images) + _time_taken(places) + _told_apart(places)
    with whole_file(folder / "table.md") as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    if any(row.metric is not None for row in rows):
        with whole_file(folder / "rows.png") as unfinished:
            rows_figure(study, rows, images).savefig(unfinished, dpi=130, format="png")
    return text


def _time_taken(places: Sequence[Place]) -> str:
    """How long the trainings took that the table is made of; a run of two rows counts once."""
    runs = {place.folder: place.results for place in places}
    seconds = [result["seconds"] for result in runs.values() if result is not None]
    if not seconds:
        return ""
    number = "1 run" if len(seconds) == 1 else f"{len(seconds)} runs"
    return f"\nTime of training: {number}, {duration(sum(seconds))} in all.\n"


def _told_apart(places: Sequence[Place]) -> str:
    """A remark if some of the runs were made with other versions or threads than others."""
    made = [(place.results or {}).get("made_with") for place in places]
    ways = {", ".join(f"{name} {value}" for name, value in way.items()) for way in made if way}
    if len(ways) < 2:
        return ""
    return f"\nNot all runs were made alike: {'; '.join(sorted(ways))}.\n"
