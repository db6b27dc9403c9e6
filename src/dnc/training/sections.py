"""The sections of a recipe: every field with its range, its default and what it means."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dnc.data import KINDS, SCENE_KINDS, Augmentation
from dnc.models import Centring, HeadSettings, Kind, RivalSettings
from dnc.training.section import BelowOne, Count, NotNegative, Positive, Section, Share

AnchorChoice = Literal["nearest", "together"]


class Data(Section):
    """Which images, and how they are read."""

    path: str | None = Field(None, description="folder or CSV file; on the command line: DATA")
    kind: str | None = Field(None, description="layout; recognised by itself if left out")
    validation_share: BelowOne = Field(
        0.1,
        description="of the training images, where no set to validate on is given; 0: none",
    )
    train_per_class: Count | None = Field(None, description="use only so many images of a class")
    coarse: str | None = Field(
        None,
        description="train on coarse classes, and see at the end how much of the finer ones was "
        "found: a CSV file with the columns fine and coarse; folders (COARSE/FINE/image); "
        "published (cifar100)",
    )
    train_images: Count | None = Field(None, description="of scenes: use only so many of them")
    download: bool = Field(False, description="fetch a published data set that is not there yet")
    check: bool = Field(
        True, description="look at the header of each file first; takes minutes for a million"
    )
    size: Count | None = Field(None, description="pixels of a side; the network's own if left out")
    resize: Count | None = Field(
        None, description="shorter side before the central crop in evaluation"
    )
    store: Literal["auto", "memory", "disk"] = Field(
        "auto", description="hold all images in memory if they fit, or read them as needed"
    )
    workers: Annotated[int, Field(ge=0, le=256)] | None = Field(
        None, description="processes that read images from disk; left out: one for each core"
    )
    evaluate_on: tuple[str, ...] = Field(
        (), description="further data sets to evaluate on at the end, as KIND=PATH or PATH"
    )

    @staticmethod
    def named_set(given: str) -> tuple[str, str | None]:
        """Path and kind of a set that is written as KIND=PATH or PATH."""
        kind, equals, path = given.partition("=")
        return (path, kind) if equals else (given, None)

    @model_validator(mode="after")
    def _kind_is_known(self) -> Self:
        known = (*KINDS, *SCENE_KINDS)
        if self.kind is not None and self.kind not in known:
            raise ValueError(f"kind is {self.kind!r}; it must be one of {', '.join(known)}")
        return self


class Model(Section):
    """The network and its classifier."""

    network: str = Field("efficientnet-lite0", description="`dnc models` lists the names")
    classifier: Kind = Field(
        "dnc",
        description="sub-centroids, or the linear layer they replace; for comparison also a mean "
        "of each class (deepncm) and the nearest of all training images (deepnca)",
    )
    pretrained: bool | str = Field(
        False, description="true: weights known by the network's name; or a file of weights"
    )
    start_from: str | None = Field(
        None,
        description="a checkpoint whose network, projection and centring are trained further",
    )
    projection: Count | None = Field(None, description="another dimension for the features")
    centring: Centring = Field(
        "none",
        description="what is taken out of the features: mean and spread of each dimension, or by "
        "statistics of the data (head.start: data) the spread inside the classes",
    )
    drop_path: BelowOne = Field(0.0, description="stochastic depth")
    fixed_norms: bool = Field(
        False,
        description="keep the statistics of the network's batch norms: those of small batches "
        "spoil a pretrained network",
    )


class Head(Section):
    """The sub-centroids."""

    subcentroids: Count | tuple[Count, ...] = Field(4, description="of each class (K)")
    fewest: Count | None = Field(
        None,
        description="sub-centroids of the smallest classes; those between have as many more as "
        "they are larger, up to subcentroids; left out: all have the same",
    )
    start: Literal["random", "orthogonal", "close", "positive", "data"] = Field(
        "positive",
        description="random directions; all at right angles; classes at right angles and those of "
        "a class close together; the same without negative numbers, as features behind a rectifier "
        "are; or clusters of the training images as the network sees them",
    )
    start_epoch: Annotated[int, Field(ge=0, le=10**9)] = Field(
        0, description="of start data: epochs before it; until then the start is positive"
    )
    momentum: Share | Literal["auto"] = Field(
        "auto",
        description="share that stays in an update (mu), 0 to 1; or by the length of the run, so "
        "that sub-centroids are means of data at its end",
    )
    memory_batches: Annotated[int, Field(ge=0, le=10**6)] = Field(
        0, description="past batches that take part in the clustering"
    )
    memory_dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="precision of the memory"
    )
    batch_means: bool = Field(
        False,
        description="means are taken over the batch alone; the memory takes part in the clustering",
    )
    epsilon: Positive = Field(0.05, description="entropy of the transport plan")
    iterations: Count = Field(3, description="Sinkhorn-Knopp iterations")
    temperature: Positive = Field(0.1, description="cosines are divided by it")
    keep_length: bool = Field(
        False,
        description="in the scores of pixels features are as long as the network makes them, which "
        "says how sure it is (with temperature: 1); otherwise they have length 1",
    )
    training_scores: Literal["nearest", "soft"] = Field(
        "soft",
        description="in the loss a class is scored by its nearest sub-centroid, or softly by all; "
        "decisions are by the nearest in any case",
    )
    assign: Literal["sinkhorn", "kmeans"] = Field("sinkhorn", description="the clustering rule")
    offline_every: Count | None = Field(
        None,
        description="epochs between two clusterings of all training images at once; between them "
        "sub-centroids stand still (with assign: kmeans the k-means of the paper's comparison); "
        "left out: they move after every step",
    )
    only_correct: bool = Field(True, description="absorb only rows that are classified correctly")
    settle: bool = Field(
        False,
        description="at the end put sub-centroids on the means of the training images, as the "
        "network that is kept sees them, unless they are tied to images (anchored_share)",
    )
    anchored_share: BelowOne = Field(
        0.0,
        description="last part of the run in which each sub-centroid is the feature of a training "
        "image, so that every decision has a real image as its reason; 0: never. The paper: 0.1",
    )
    anchor_choice: AnchorChoice = Field(
        "nearest",
        description="which training images: the nearest to each sub-centroid; or images near to "
        "it, chosen together by how well they decide the training images",
    )
    reseed_after: Count | None = Field(
        None, description="clusterings without rows after which a sub-centroid starts anew"
    )

    @model_validator(mode="after")
    def _fewest_are_no_more_than_all(self) -> Self:
        if self.fewest is None:
            return self
        if not isinstance(self.subcentroids, int) or self.fewest > self.subcentroids:
            raise ValueError(
                f"fewest is {self.fewest} and subcentroids {self.subcentroids}; subcentroids must "
                "be one number, of the largest classes, and fewest no more than that"
            )
        return self

    def settings(
        self,
        batch_size: int,
        *,
        rows_per_class: int | None = None,
        seed: int = 0,
        rival: RivalSettings,
    ) -> HeadSettings:
        """The settings of a head; the memory is counted in rows there."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        del values["start_epoch"], values["settle"], values["offline_every"], values["fewest"]
        del values["anchored_share"], values["anchor_choice"]
        if self.start == "data":
            values["start"] = "positive"
        if self.momentum == "auto":  # known once the length of the run is
            values["momentum"] = HeadSettings.momentum
        return HeadSettings(
            memory_rows=values.pop("memory_batches") * batch_size,
            rows_per_class=rows_per_class,
            seed=seed,
            rival=rival,
            **values,
        )


class Rival(Section):
    """The classifiers that sub-centroids are compared with (model.classifier)."""

    mean_decay: Share | None = Field(
        0.9,
        description="of deepncm: share of a class mean that stays in an update; null: the mean of "
        "all that ever came",
    )
    bank_temperature: Positive = Field(0.05, description="of deepnca: cosines are divided by it")
    bank_momentum: BelowOne = Field(
        0.5, description="of deepnca: share of an image's row that stays when it comes again"
    )
    neighbours: Count = Field(30, description="of deepnca: training images that decide")

    def settings(self) -> RivalSettings:
        """The same for `dnc.models`; how many training images there are is known later."""
        return RivalSettings(
            mean_decay=self.mean_decay,
            bank_temperature=self.bank_temperature,
            bank_momentum=self.bank_momentum,
            neighbours=self.neighbours,
        )


class Augment(Section):
    """Changes of the training images, drawn anew in each epoch."""

    crop: Literal["none", "padded", "resized"] = Field(
        "resized", description="shifted by padding, or a part of random size"
    )
    padding: Annotated[int, Field(ge=0, le=1000)] = Field(4, description="pixels, for `padded`")
    scale: tuple[Positive, Positive] = Field((0.08, 1.0), description="area, for `resized`")
    ratio: tuple[Positive, Positive] = Field((3 / 4, 4 / 3), description="sides, for `resized`")
    flip: bool = Field(True, description="left and right")
    colour_jitter: Share = Field(0.0, description="brightness, contrast and saturation")
    randaugment: Annotated[int, Field(ge=0, le=20)] = Field(0, description="operations; 0: none")
    randaugment_magnitude: Annotated[int, Field(ge=0, le=30)] = Field(9, description="of 30")
    erasing: Share = Field(0.0, description="probability that a rectangle is erased")
    mixup: Annotated[float, Field(ge=0, le=100)] = Field(0.0, description="alpha; 0: never")
    cutmix: Annotated[float, Field(ge=0, le=100)] = Field(0.0, description="alpha; 0: never")
    mix_probability: Share = Field(
        0.5, description="of a row to be mixed; only rows with one label become cases"
    )

    @model_validator(mode="after")
    def _ranges_begin_below_their_end(self) -> Self:
        self.augmentation()
        return self

    def augmentation(self) -> Augmentation:
        """The same for `dnc.data`."""
        return Augmentation(**{name: getattr(self, name) for name in type(self).model_fields})


class Optimizer(Section):
    """How the network learns."""

    name: Literal["sgd", "adamw"] = Field("sgd", description="the optimizer")
    learning_rate: Positive = Field(0.1, description="at its highest")
    momentum: BelowOne = Field(0.9, description="of sgd")
    nesterov: bool = Field(False, description="of sgd")
    betas: tuple[BelowOne, BelowOne] = Field((0.9, 0.999), description="of adamw")
    weight_decay: NotNegative = Field(1e-4, description="pull of the weights to zero")
    decay_all: bool = Field(True, description="also of biases and norms")
    clip: Positive | None = Field(None, description="largest norm of the gradient")
    ema: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="decay of an average of the weights, which is then what is evaluated"
    )
    label_smoothing: BelowOne = Field(0.0, description="of the targets")

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class Schedule(Section):
    """The learning rate over the run."""

    kind: Literal["constant", "step", "polynomial", "cosine"] = Field(
        "cosine", description="after the warm-up"
    )
    warmup_epochs: NotNegative = Field(0.0, description="of linear growth")
    milestones: tuple[Share, ...] = Field(
        (0.5, 0.75), description="of `step`, as shares of the run"
    )
    gamma: Annotated[float, Field(gt=0, le=1)] = Field(0.1, description="factor of `step`")
    power: Positive = Field(1.0, description="of `polynomial`")
    final: Share = Field(0.0, description="learning rate at the end, as a share")

    @model_validator(mode="after")
    def _step_has_milestones(self) -> Self:
        if self.kind == "step" and not self.milestones:
            raise ValueError("kind step needs milestones, as shares of the run")
        return self


class Training(Section):
    """The run."""

    epochs: Count = Field(100, description="passes over the training images")
    iterations: Count | None = Field(
        None,
        description="steps of the optimizer, in place of epochs: as many whole epochs as have them",
    )
    batch_size: Annotated[int, Field(ge=2, le=10**7)] = Field(
        128, description="of all processes together"
    )
    accumulate: Count = Field(1, description="batches for one step, as one batch")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="same seed, same numbers")
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = Field(
        "32-true", description="of the network; cosines are always float32 or better"
    )
    accelerator: Literal["auto", "cpu", "gpu", "mps"] = Field("auto", description="hardware")
    devices: Annotated[int, Field(ge=1, le=10**5)] | Literal["auto"] = Field(
        "auto", description="for each machine; auto is all GPUs, or one process on a CPU"
    )
    nodes: Annotated[int, Field(ge=1, le=10**6)] = Field(1, description="machines")
    sync_norms: bool = Field(
        False,
        description="batch norms take the statistics of all GPUs together, for a few images a GPU",
    )
    validate_every: Count = Field(1, description="epochs between validations")
    tensorboard: bool = Field(False, description="write TensorBoard files too")
