"""One training step, one validation step, and what is kept of them: the method on Lightning."""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast, get_args

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from dnc.centroids import SubCentroidHead, exempt_from_broadcast, momentum_at
from dnc.data import Batch, SceneBatch
from dnc.evaluation import Evaluation, PixelEvaluation, PixelTally, Tally
from dnc.models import Classifier, Segmenter
from dnc.models.last_layer import twin
from dnc.recognition import Recognizer
from dnc.rivals import ClassMeanHead, NeighbourHead
from dnc.scene_recognition import AnyRecognizer
from dnc.training.checkpoint import describe, portable_weights
from dnc.training.optimizers import optimizer, parameter_groups
from dnc.training.recipe import Recipe
from dnc.training.schedule import learning_rate_factor
from dnc.training.state import random_state, set_random_state

# Parts of a model that are no part of how it sees.
NOT_AVERAGED = ("head", "auxiliary", "contrast")
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)

# What takes a batch in after each step.
AbsorbingHead = SubCentroidHead | ClassMeanHead | NeighbourHead

GivenBatch = TypeVar("GivenBatch", Batch, SceneBatch)


class TrainingModule(LightningModule, Generic[GivenBatch]):
    """Trains a recognizer's model by a recipe; what a loss is, and what is right, its task says.

    The order in a step is the method's: score, loss, backward, optimizer step, and only then does
    the head absorb the batch. Batches that are accumulated for one step are absorbed as one.

    Args:
        recognizer: the model with its classes and preprocessing.
        recipe: optimizer, schedule and the rest.

    """

    def __init__(
        self, recognizer: AnyRecognizer, recipe: Recipe, *, tally: type[Tally] | type[PixelTally]
    ) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.model: Classifier | Segmenter = recognizer.model
        self.recipe = recipe
        self.averaged: AveragedModel | None = None
        if recipe.optimizer.ema is not None:
            average = get_ema_multi_avg_fn(recipe.optimizer.ema)
            self.averaged = AveragedModel(
                _embedding(self.model), multi_avg_fn=average, use_buffers=True
            )
            self.averaged.requires_grad_(False)
        self.new_tally = tally
        self.tally = tally(len(recognizer.classes))
        self.waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self.resumed_from: dict[str, Any] | None = None
        # DDP would overwrite each process's share of the memory with the first one's.
        exempt_from_broadcast(self, get_args(AbsorbingHead))

    @abstractmethod
    def counted_rows(self, batch: GivenBatch) -> int:
        """Rows of a batch that have a share in the loss; 0 if the batch cannot be trained on."""

    @abstractmethod
    def mean_loss(self, batch: GivenBatch) -> Tensor:
        """The mean loss of the rows of a batch (Eq. 7); what is absorbed later waits."""

    @property
    @abstractmethod
    def rows_of_step(self) -> int:
        """Rows of an optimizer's step, about."""

    @property
    def evaluated(self) -> Classifier | Segmenter:
        """The model that is validated and kept: with the averaged weights if there are any."""
        if self.averaged is None:
            return self.model
        whole = cast("Classifier | Segmenter", twin(self.model))
        for name, part in cast("nn.ModuleDict", self.averaged.module).items():
            whole._modules[name] = part
        return whole

    def copy_centring_to_average(self) -> None:
        """Gives statistics that were taken all at once to the averaged weights as they are."""
        if self.averaged is not None:
            parts = cast("nn.ModuleDict", self.averaged.module)
            parts["centring"].load_state_dict(self.model.centring.state_dict())

    def configure_optimizers(self) -> Any:
        """The recipe's optimizer, and its schedule by the step."""
        wanted, schedule = self.recipe.optimizer, self.recipe.schedule
        groups = parameter_groups(
            self.model, weight_decay=wanted.weight_decay, decay_all=wanted.decay_all
        )
        made = optimizer(
            groups,
            name=wanted.name,
            learning_rate=wanted.learning_rate,
            momentum=wanted.momentum,
            nesterov=wanted.nesterov,
            betas=wanted.betas,
        )
        steps = int(self.trainer.estimated_stepping_batches)
        steps_per_epoch = steps / self.recipe.training.epochs
        warmup_steps = min(round(schedule.warmup_epochs * steps_per_epoch), steps)

        def factor(step: int) -> float:
            return learning_rate_factor(
                step,
                steps=steps,
                warmup_steps=warmup_steps,
                kind=schedule.kind,
                milestones=schedule.milestones,
                gamma=schedule.gamma,
                power=schedule.power,
                final=schedule.final,
            )

        by_step = torch.optim.lr_scheduler.LambdaLR(made, factor)
        return {"optimizer": made, "lr_scheduler": {"scheduler": by_step, "interval": "step"}}

    def configure_model(self) -> None:
        """Divides the memory among the processes, before it goes to any device."""
        head = self.model.head
        if isinstance(head, SubCentroidHead):
            head.divide()

    def on_fit_start(self) -> None:
        """Goes on from where a run was left."""
        if self.resumed_from is not None:
            self._set_random_state(self.resumed_from["random_states"])
            self.resumed_from = None

    def on_train_epoch_start(self) -> None:
        """Leaves the batch norms of the network as they came, if the recipe says so."""
        if self.recipe.model.fixed_norms:
            for module in self.model.backbone.modules():
                if isinstance(module, BATCH_NORMS):
                    module.eval()

    def training_step(self, batch: GivenBatch, batch_index: int) -> Tensor:
        """The loss of a batch (Eq. 7); its features wait until the step is done."""
        rows = self.counted_rows(batch)
        share = self._share_of_rows(rows)
        return self.mean_loss(batch) * share if rows else self._no_loss()

    def on_train_batch_end(self, outputs: Any, batch: GivenBatch, batch_index: int) -> None:
        """After the optimizer's step: the head absorbs the rows that carry one label (Eq. 6, 8)."""
        if not self._step_was_taken(batch_index):
            return
        head = self.model.head
        if isinstance(head, SubCentroidHead) and self.recipe.head.momentum == "auto":
            head.momentum = self._momentum(head.classes)
        if not isinstance(head, nn.Linear):
            self.absorb(head)
        self.waiting.clear()
        if self.averaged is not None:
            self.averaged.update_parameters(_embedding(self.model))

    def absorb(self, head: AbsorbingHead) -> None:
        """Lets the head absorb what waits (Eq. 6, 8), unless it is clustered by the epoch."""
        if self.recipe.head.offline_every is None or not isinstance(head, SubCentroidHead):
            head.absorb(*self._waiting_rows(head))

    def on_validation_epoch_end(self) -> None:
        """Adds up over the processes and logs."""
        state = self.tally.state()
        if self.trainer.world_size > 1:
            state = {
                name: self.trainer.strategy.reduce(value.to(self.device), reduce_op="sum").cpu()
                for name, value in state.items()
            }
        whole = self.new_tally(len(self.recognizer.classes))
        whole.add_state(state)
        self.tally = self.new_tally(len(self.recognizer.classes))
        for name, value in validation_figures(whole.result(self.recognizer.classes)).items():
            if math.isfinite(value):
                self.log(f"val/{name}", value, rank_zero_only=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds what Lightning does not know: the model by itself, whole memory, random states."""
        weights = portable_weights(self.evaluated)
        described = describe(replace(self.recognizer, model=self.evaluated))  # type: ignore[arg-type]
        checkpoint["recognizer"] = {"description": described, "weights": weights}
        checkpoint["random_states"] = self._random_states()
        head = self.model.head
        if isinstance(head, SubCentroidHead) and head.memory is not None:
            whole = head.whole_memory()
            for name, value in (whole or {}).items():
                checkpoint["state_dict"][f"model.head.memory.{name}"] = value

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Remembers what is put back when the run begins."""
        self.resumed_from = {"random_states": checkpoint["random_states"]}

    def _share_of_rows(self, rows: int) -> Tensor | float:
        """Weight that makes the mean over the processes a mean over all rows of all of them."""
        if self.trainer.world_size == 1:
            return 1.0
        mine = torch.tensor(float(rows), device=self.device)
        total = self.trainer.strategy.reduce(mine.clone(), reduce_op="sum")
        return mine * self.trainer.world_size / total.clamp(min=1)

    def _no_loss(self) -> Tensor:
        """A loss of nothing that still reaches every parameter, so that no process waits."""
        return torch.stack([p.sum() for p in self.model.parameters() if p.requires_grad]).sum() * 0

    def keep(self, features: Tensor, labels: Tensor, ids: Tensor) -> None:
        """Keeps what the head absorbs after the step: rows or a map, with a label for each row."""
        head = self.model.head
        if not isinstance(head, nn.Linear):
            if self.recipe.training.precision == "16-mixed":
                # Where float16 overflows, the step is skipped and the scale lowered.
                labels = labels.masked_fill(~features.isfinite().all(dim=1), head.ignore_index)
                features = features.nan_to_num()
            self.waiting.append((features.detach(), labels, ids))

    def _waiting_rows(self, head: AbsorbingHead) -> tuple[Tensor, Tensor, Tensor]:
        """Features, labels and ids of the step's batches."""
        if not self.waiting:  # the other processes count on this one to take part all the same
            none = torch.zeros(0, dtype=torch.long, device=self.device)
            return torch.zeros(0, head.dim, device=self.device), none, none
        features, labels, ids = zip(*self.waiting, strict=True)
        return torch.cat(features), torch.cat(labels), torch.cat(ids)

    def _momentum(self, classes: int) -> float:
        """As fast as the length of the run asks for; the optimizer has taken its step already."""
        return momentum_at(
            self.trainer.global_step - 1,
            steps=int(self.trainer.estimated_stepping_batches),
            classes=classes,
            rows=self.rows_of_step,
        )

    def _step_was_taken(self, batch_index: int) -> bool:
        last = batch_index + 1 == self.trainer.num_training_batches
        return last or (batch_index + 1) % self.recipe.training.accumulate == 0

    def _random_states(self) -> Tensor:
        state = random_state(self.device).to(self.device)
        gathered = cast("Tensor", self.all_gather(state))
        return gathered.reshape(-1, state.numel()).cpu()

    def _set_random_state(self, states: Tensor) -> None:
        if len(states) == self.trainer.world_size:
            set_random_state(states[self.global_rank], self.device)


class ClassifierTraining(TrainingModule[Batch]):
    """Trains a classifier: a row for each image."""

    def __init__(self, recognizer: Recognizer, recipe: Recipe) -> None:
        super().__init__(recognizer, recipe, tally=Tally)

    def counted_rows(self, batch: Batch) -> int:
        """All images of a batch; one alone has no batch statistics."""
        return len(batch.labels) if len(batch.labels) > 1 else 0

    def mean_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy; images with two labels are not absorbed."""
        features, head = self.model.features(batch.images), self.model.head
        is_bank = isinstance(head, NeighbourHead)  # in which no image is its own neighbour
        scores = head(features, batch.ids) if is_bank else head(features)
        losses = _losses(scores, batch, self.recipe.optimizer.label_smoothing)
        self.keep(features, batch.labels.masked_fill(~batch.single_label, -100), batch.ids)
        return losses.mean()

    @property
    def rows_of_step(self) -> int:
        """The images of a step."""
        return self.recipe.training.batch_size * self.recipe.training.accumulate

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Counts what the evaluated classifier gets right."""
        if len(batch.labels):
            self.tally.add(self.evaluated.eval()(batch.images), batch.labels)


def validation_figures(evaluation: Evaluation | PixelEvaluation) -> dict[str, float]:
    """What is watched on the validation images while a run goes on."""
    if isinstance(evaluation, PixelEvaluation):
        return {"miou": evaluation.miou, "pixel_accuracy": evaluation.pixel_accuracy}
    return {"top1": evaluation.top1, "loss": evaluation.mean_loss}


def _embedding(model: Classifier | Segmenter) -> nn.ModuleDict:
    """All of a model but its head."""
    return nn.ModuleDict(
        {name: part for name, part in model.named_children() if name not in NOT_AVERAGED}
    )


def _losses(scores: Tensor, batch: Batch, smoothing: float) -> Tensor:
    """Cross-entropy of each row with its one or two labels."""
    losses = cross_entropy(scores, batch.labels, reduction="none", label_smoothing=smoothing)
    if batch.single_label.all():
        return losses
    other = cross_entropy(scores, batch.other_labels, reduction="none", label_smoothing=smoothing)
    return torch.lerp(other, losses, batch.share.to(losses.dtype))
