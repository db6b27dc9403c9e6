"""What is written of a study: a table in Markdown, every run in a CSV, a plot."""

from collections.abc import Sequence
from pathlib import Path

from dnc.files import whole_file
from dnc.study.definition import Study
from dnc.study.pictures import rows_figure
from dnc.study.store import Place
from dnc.study.summary import markdown, summarised, write_csv


def write_study(study: Study, places: Sequence[Place], folder: Path) -> str:
    """Writes `table.md`, `runs.csv` and `rows.png` of the finished runs; the table."""
    rows = summarised(study, places)
    text = markdown(study, rows)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / "table.md") as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    write_csv(places, folder / "runs.csv")
    if any(row.metric is not None for row in rows):
        with whole_file(folder / "rows.png") as unfinished:
            rows_figure(study, rows).savefig(unfinished, dpi=130, format="png")
    return text
