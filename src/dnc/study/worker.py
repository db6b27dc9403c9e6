"""One run of a study in a process of its own: `python -m dnc.study.worker FOLDER RECIPE`.

The recipe comes as JSON. The process that started this one keeps its standard input open; when that
process ends, however it does, so does this one: nothing goes on unseen. A run that another study is
just doing is waited for.
"""

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import torch
from filelock import FileLock
from rich.console import Console

from dnc.errors import DNCError
from dnc.training.checkpoint import LAST
from dnc.training.recipe import Recipe
from dnc.training.results import RESULTS
from dnc.training.run import RECIPE, train


def main() -> None:
    """Runs or resumes the run in the folder that is named."""
    folder, recipe = Path(sys.argv[1]), Recipe.from_tree(json.loads(sys.argv[2]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()
        signal.default_int_handler(number, frame)  # as after Ctrl-C

    signal.signal(signal.SIGTERM, stop)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    console = Console(width=120)
    try:
        if "LOCAL_RANK" in os.environ:  # one of the further processes that the first has started
            train(recipe, folder, console=console, resume=(folder / LAST).is_dir())
        else:
            with FileLock(folder.with_name(folder.name + ".lock")):
                _run(recipe, folder, console)
    except (SystemExit, KeyboardInterrupt) as stopped:  # the first is Lightning's answer to Ctrl-C
        console.print("Stopped.")
        raise SystemExit(130) from stopped
    except Exception as error:
        if stopping.is_set():  # a module that was just being imported makes an ImportError of it
            console.print("Stopped.")
            raise SystemExit(130) from error
        if not isinstance(error, DNCError):
            raise
        console.print(f"Error: {error}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(1) from error


def _run(recipe: Recipe, folder: Path, console: Console) -> None:
    if (folder / RESULTS).is_file():  # somebody else has done it meanwhile
        return
    begun = (folder / RECIPE).is_file()
    if not begun:  # of a run without its recipe nothing is done yet
        shutil.rmtree(folder, ignore_errors=True)
    train(recipe, folder, console=console, resume=begun)


def _end_with_parent() -> None:
    # Not by `sys.stdin`, whose lock Python wants to have when it ends. Nothing is ever written.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
