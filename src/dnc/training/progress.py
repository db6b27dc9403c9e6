"""How far a run has come: a bar on a terminal, a line for each epoch elsewhere."""

import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dnc.durations import duration
from dnc.training.history import History, Row

SECONDS_BETWEEN_MOVES = 0.5


class RunProgress(Callback):
    """Shows epoch, loss, accuracy, images per second and the time that is left."""

    def __init__(self, console: Console, history: History) -> None:
        self.console = console
        self.history = history
        self.bar: Progress | None = None
        self.task = TaskID(0)
        self.steps_before = 0
        self.shown = 0
        self.moved = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the bar."""
        self.steps_before = trainer.global_step
        if trainer.is_global_zero and self.console.is_terminal and not self.console.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self.bar = Progress(*columns, TextColumn("{task.fields[told]}"), console=self.console)
            self.task = self.bar.add_task(
                "training",
                total=int(trainer.estimated_stepping_batches),
                completed=trainer.global_step,
                told="",
            )
            self.bar.start()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Moves the bar, now and then: to read the loss is to wait for the GPU."""
        now = time.perf_counter()
        if self.bar is not None and now - self.moved > SECONDS_BETWEEN_MOVES:
            self.moved = now
            told = (
                f"loss {float(self.history.loss_sum) / max(self.history.batches, 1):.3f}  "
                f"{self.history.images_per_second:.0f} images/s  {self._left(trainer)} left"
            )
            self.bar.update(
                self.task,
                completed=trainer.global_step,
                description=f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}",
                told=told,
            )

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Tells the epoch's row once it is complete, which is when it is saved."""
        rows = self.history.rows
        if trainer.is_global_zero and len(rows) > self.shown:
            self.shown = len(rows)
            self.console.print(self._told(trainer, rows[-1]), highlight=False)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Closes the bar, whatever ended the run."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _told(self, trainer: Trainer, row: Row) -> str:
        told = "".join(
            f"  validation {name}{100 * share:6.2f} %"
            for name, share in (("", row.val_top1), ("mIoU ", row.val_miou))
            if share is not None
        )
        return (
            f"epoch {row.epoch:>3}/{trainer.max_epochs}  loss {row.train_loss:.4f}{told}"
            f"  {row.images_per_second:.0f} images/s  {self._left(trainer)} left"
        )

    def _left(self, trainer: Trainer) -> str:
        """Time left, from the pace of this sitting, validations and checkpoints included."""
        done = trainer.global_step - self.steps_before
        if not done:
            return "?"
        pace = (self.history.seconds - self.history.seconds_before) / done
        return duration(pace * (int(trainer.estimated_stepping_batches) - trainer.global_step))
