"""The folder of an evaluation: its figures, tables and pictures."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from dnc.files import whole_folder


def write_folder(
    folder: Path,
    *,
    figures: Mapping[str, object],
    tables: Mapping[str, Iterable[Iterable[object]]],
    pictures: Mapping[str, Figure],
) -> None:
    """Writes figures to `evaluation.json`, tables (CSV) and pictures (PNG), all or nothing.

    Args:
        folder: what it held before is replaced.
        figures: as JSON knows them.
        tables: rows by the name of the file, the first is the head.
        pictures: by the name of the file.

    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as target:
        text = json.dumps(figures, indent=1, ensure_ascii=False, allow_nan=False)
        (target / "evaluation.json").write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            with (target / name).open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
        for name, picture in pictures.items():
            picture.savefig(target / name, dpi=120, format="png")
