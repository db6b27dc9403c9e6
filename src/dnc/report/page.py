"""What reports of any task share: the script of the page, its size, and how it is written."""

import base64
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from dnc.files import whole_file

TEMPLATES = Path(__file__).with_name("templates")
OPEN_CLASSES = 50
SIZE_HERE = Markup("<size>")  # names cannot hold it, since whatever they hold is escaped


@dataclass(frozen=True)
class Written:
    """A report that was written."""

    path: Path
    size: int


class Page(ABC):
    """A page about a model, complete in itself."""

    @abstractmethod
    def html(self) -> str:
        """The page."""

    def write(self, path: Path) -> Written:
        """Writes the page, whole or not at all."""
        text = self.html()
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        return Written(path, path.stat().st_size)


def frame(title: str, contents: dict[str, str]) -> dict[str, object]:
    """What a template needs around a report: its title, its parts by their ids, and its script."""
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "title": title,
        "sections": [{"id": key, "name": name} for key, name in contents.items()],
        "script": Markup(script),
        "script_hash": f"sha256-{digest}",
        "size_here": SIZE_HERE,
    }


def with_size(text: str) -> str:
    """A page that says how large it is."""
    size = len(text.encode("utf-8", "backslashreplace"))
    return text.replace(SIZE_HERE, f"{size / 1e6:.1f} MB")
