"""One run of a study in a process of its own: `python -m dnc.study.worker FOLDER`.

The first line of its standard input is the recipe. The process that started this one keeps the
input open; when that process ends, however it does, so does this one: nothing goes on unseen, and
a study that is started again finds no run that somebody else is still writing.
"""

import json
import os
import shutil
import sys
import threading
from pathlib import Path

import torch
from rich.console import Console

from dnc.errors import DNCError
from dnc.training.recipe import Recipe
from dnc.training.run import RECIPE, train


def main() -> None:
    """Runs or resumes the run in the folder that is named."""
    folder = Path(sys.argv[1])
    recipe = Recipe.from_tree(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    console = Console(width=120)
    begun = (folder / RECIPE).is_file()
    if not begun:  # of a run without its recipe nothing is done yet
        shutil.rmtree(folder, ignore_errors=True)
    try:
        train(recipe, folder, console=console, resume=begun)
    except DNCError as error:
        console.print(f"Error: {error}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(1) from error


def _end_with_parent() -> None:
    # Not by `sys.stdin`, whose lock Python wants to have when it ends.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
