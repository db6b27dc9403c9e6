"""Runs that die in the middle."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path


def killed_run(folder: Path, settings: Sequence[str], *, epoch: int) -> None:
    """Trains on digits in another process, which kills itself in the fourth step of an epoch."""
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
            if self.current_epoch == {epoch} and batch_index == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return training_step(self, batch, batch_index)

        TrainingModule.training_step = deadly_step
        recipe = Recipe.read("digits").with_settings({list(settings)!r})
        train(recipe, Path({str(folder)!r}), console=Console(quiet=True))
        """
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
