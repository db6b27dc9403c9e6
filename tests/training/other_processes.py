"""Runs in other processes: two that train together, and one that dies."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

DNC = Path(sys.executable).with_name("dnc")
# Layer norm alone, so that a batch may be divided; all rows fit in the memory, nothing is drawn at
# random.
DIVISIBLE = (
    *("data.kind=folder", "data.size=64", "data.resize=64", "data.validation_share=0"),
    *("model.network=test_vit", "augment.crop=none", "augment.flip=false"),
    *("optimizer.name=sgd", "optimizer.learning_rate=0.01"),
    *("head.memory_batches=40", "head.momentum=0.9"),
    *("training.accelerator=cpu", "training.batch_size=32", "training.epochs=4"),
)


def runs_of_one_and_two_processes(
    images: Path,
    folder: Path,
    settings: Sequence[str] = (),
    *,
    recipe: str = "digits",
    divisible: Sequence[str] = DIVISIBLE,
) -> tuple[Path, Path]:
    """Trains on a folder of images by `dnc train`, once in one process and once in two."""
    options = [part for setting in (*divisible, *settings) for part in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for processes in (1, 2):
        subprocess.run(
            [
                *(DNC, "train", images, "-r", recipe, "-o", folder / f"run{processes}"),
                *(*options, "--set", f"training.devices={processes}", "--quiet"),
            ],
            cwd=folder,
            env=environment,
            check=True,
            timeout=300,
        )
    return folder / "run1", folder / "run2"


def killed_run(
    folder: Path, settings: Sequence[str], *, epoch: int, recipe: str = "digits", step: int = 3
) -> None:
    """Trains in another process, which kills itself in a step of an epoch."""
    code = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from rich.console import Console
        from dnc.training.module import TrainingModule
        from dnc.training.recipe import Recipe
        from dnc.training.run import train

        training_step = TrainingModule.training_step

        def deadly_step(self, batch, batch_index):
            if self.current_epoch == {epoch} and batch_index == {step}:
                os.kill(os.getpid(), signal.SIGKILL)
            return training_step(self, batch, batch_index)

        TrainingModule.training_step = deadly_step
        recipe = Recipe.read({recipe!r}).with_settings({list(settings)!r})
        train(recipe, Path({str(folder)!r}), console=Console(quiet=True))
        """
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
