"""What a run tells while it goes on: a table, a plot, and a warning when sub-centroids collapse."""

import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dnc.centroids import Health, SubCentroidHead
from dnc.files import whole_file

# Sub-centroids of a class that are this alike on average are one sub-centroid for all purposes.
COLLAPSED = 0.99

# Panels that show at least the range from 0 to 1.
AT_LEAST_ONE = ("val_top1", "val_miou", "empty_subcentroids", "memory_age")


@dataclass(frozen=True)
class Row:
    """The state of a run after a number of steps.

    `seconds` are those of the whole run, `epoch_seconds` those of the training steps of the epoch.
    """

    epoch: int
    step: int
    seconds: float
    epoch_seconds: float
    images_per_second: float
    learning_rate: float
    train_loss: float
    val_top1: float | None = None
    val_miou: float | None = None
    val_loss: float | None = None
    pairwise_cosine: float | None = None
    empty_subcentroids: int | None = None
    memory_age: float | None = None


class History(Callback):
    """Keeps a row for each epoch, and for every so many steps of a long one, in `metrics.csv`.

    It is part of the training state: a resumed run goes on with the same table.

    Args:
        folder: where `metrics.csv` and `curves.png` go.
        warn: is given a sentence when sub-centroids have collapsed.
        every: steps between rows inside an epoch.

    """

    def __init__(self, folder: Path, *, warn: Callable[[str], None], every: int = 500) -> None:
        self.folder = folder
        self.warn = warn
        self.every = every
        self.rows: list[Row] = []
        self.seconds_before = 0.0
        self.began = time.perf_counter()
        self.loss_sum: torch.Tensor | float = 0.0
        self.was_collapsed = False
        self.validated = False
        self._count_anew()

    @property
    def seconds(self) -> float:
        """Time that the run has taken, all its sittings together."""
        return self.seconds_before + time.perf_counter() - self.began

    @property
    def epoch_seconds(self) -> float:
        """Time that the training steps of this epoch took."""
        return max(self.training_until - self.since, 1e-9)

    @property
    def images_per_second(self) -> float:
        """Training images of this epoch, by the time that their steps took."""
        return self.images / self.epoch_seconds

    def state_dict(self) -> dict[str, Any]:
        """The rows and the time that the run has taken."""
        return {"rows": [asdict(row) for row in self.rows], "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with the rows of a run that was left."""
        self.rows = [Row(**row) for row in state_dict["rows"]]
        self.seconds_before = float(state_dict["seconds"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the clock."""
        self.began = time.perf_counter()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Counts anew."""
        self._count_anew()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Counts images; inside a long epoch adds a row."""
        self.images += len(batch.labels) * trainer.world_size
        # Lightning divides the loss of a batch by the batches that make up a step.
        self.loss_sum = self.loss_sum + outputs["loss"].detach() * trainer.accumulate_grad_batches
        self.batches += 1
        self.training_until = time.perf_counter()
        inside = batch_idx + 1 < trainer.num_training_batches
        if inside and (batch_idx + 1) % self.every == 0:
            self._add(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remembers that the next row has something to say of the validation images."""
        self.validated = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Adds the epoch's row, writes the table and draws it."""
        self._add(trainer, pl_module)
        if trainer.is_global_zero:
            with whole_file(self.folder / "curves.png") as unfinished:
                curves_figure(self.rows).savefig(unfinished, dpi=110, format="png")

    def _add(self, trainer: Trainer, module: Any) -> None:
        metrics = trainer.callback_metrics if self.validated else {}
        self.validated = False
        row = Row(
            epoch=trainer.current_epoch + 1,
            step=trainer.global_step,
            seconds=round(self.seconds, 3),
            epoch_seconds=round(self.epoch_seconds, 6),
            images_per_second=round(self.images_per_second, 2),
            learning_rate=float(trainer.optimizers[0].param_groups[0]["lr"]),
            train_loss=self._mean_loss(trainer, module),
            val_top1=_value(metrics, "val/top1"),
            val_miou=_value(metrics, "val/miou"),
            val_loss=_value(metrics, "val/loss"),
            **self._health(trainer, module.model.head),
        )
        self.rows.append(row)
        for logger in trainer.loggers:
            logger.log_metrics(_numbers(row), step=trainer.global_step)
        if trainer.is_global_zero:
            write_rows(self.rows, self.folder / "metrics.csv")

    def _mean_loss(self, trainer: Trainer, module: LightningModule) -> float:
        """Mean over the batches of this epoch and over the processes."""
        mean = torch.as_tensor(self.loss_sum, device=module.device) / max(self.batches, 1)
        return float(trainer.strategy.reduce(mean, reduce_op="mean"))

    def _health(self, trainer: Trainer, head: torch.nn.Module) -> dict[str, Any]:
        if not isinstance(head, SubCentroidHead):
            return {}
        health = head.health()
        collapsed = int((health.pairwise_cosine > COLLAPSED).sum())
        if collapsed and not self.was_collapsed and trainer.is_global_zero:
            self.warn(
                f"Sub-centroids have collapsed in {collapsed} of {head.classes} classes (pairwise "
                f"cosine above {COLLAPSED}) at step {trainer.global_step}. A higher head.momentum "
                "or fewer head.subcentroids help."
            )
        self.was_collapsed = bool(collapsed)
        age = health.mean_age
        return {**health_figures(head, health), "memory_age": age if age == age else None}

    def _count_anew(self) -> None:
        self.images, self.batches = 0, 0
        self.loss_sum = 0.0
        self.since = self.training_until = time.perf_counter()


def health_figures(head: SubCentroidHead, health: Health) -> dict[str, float | None]:
    """Mean pairwise cosine, None without a pair, and the number of sub-centroids without rows."""
    cosine = health.pairwise_cosine[~health.pairwise_cosine.isnan()]
    return {
        "pairwise_cosine": float(cosine.mean()) if len(cosine) else None,
        "empty_subcentroids": int((head.valid & ~head.occupied | health.dead).sum()),
    }


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Writes the table as CSV; what is not known is left empty."""
    with whole_file(path) as unfinished, unfinished.open("w", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def curves_figure(rows: Sequence[Row]) -> Figure:
    """Loss, accuracy and the health of the sub-centroids over the steps of a run."""
    panels: list[tuple[str, list[tuple[str, str]]]] = [
        ("loss", [("train_loss", "training"), ("val_loss", "validation")]),
        ("accuracy on validation images", [("val_top1", "top 1")]),
        ("mean IoU on validation images", [("val_miou", "")]),
        ("learning rate", [("learning_rate", "")]),
        ("pairwise cosine inside a class", [("pairwise_cosine", "mean of classes")]),
        ("sub-centroids without rows", [("empty_subcentroids", "")]),
        ("age of the memory, in steps", [("memory_age", "")]),
    ]
    known = [
        (title, [line for line in lines if _points(rows, line[0])[0]]) for title, lines in panels
    ]
    known = [(title, lines) for title, lines in known if lines]
    columns = min(3, len(known))
    height = -(-len(known) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.5 * height), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False).flatten()
    for ax, (title, lines) in zip(axes, known, strict=False):
        _draw(ax, title, rows, lines)
    for ax in axes[len(known) :]:
        ax.set_axis_off()
    return figure


def _draw(ax: Axes, title: str, rows: Sequence[Row], lines: list[tuple[str, str]]) -> None:
    for (name, label), colour in zip(lines, ("#1b7837", "#762a83"), strict=False):
        steps, values = _points(rows, name)
        marker = "o" if len(steps) < 30 else ""
        ax.plot(
            steps, values, color=colour, label=label, marker=marker, markersize=3, linewidth=1.3
        )
    ax.set_title(title, fontsize=9, color="#222222")
    ax.set_xlabel("step", fontsize=8, color="#8a8a8a")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.tick_params(labelsize=7, colors="#555555")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#eeeeee", linewidth=0.7)
    if lines[0][0] != "pairwise_cosine":  # the others begin at nothing
        highest = 1.05 * max(value for name, _ in lines for value in _points(rows, name)[1])
        least = 1.0 if lines[0][0] in AT_LEAST_ONE else 0.0
        ax.set_ylim(0, max(least, highest) or None)
    if len(lines) > 1:
        ax.legend(fontsize=7, frameon=False)


def _points(rows: Sequence[Row], name: str) -> tuple[list[int], list[float]]:
    known = [(row.step, getattr(row, name)) for row in rows if getattr(row, name) is not None]
    return [step for step, _ in known], [value for _, value in known]


def _value(metrics: Any, name: str) -> float | None:
    return float(metrics[name]) if name in metrics else None


def _numbers(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(row).items() if value is not None}
