"""The head that replaces a network's last layer: sub-centroids, their memory and their motion."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dnc.centroids import exchange
from dnc.centroids.assignment import Assign, sinkhorn
from dnc.centroids.between import PixelDecision, nearest_cases_between
from dnc.centroids.clustering import Rule, SubCentroids, cluster_batch_, cluster_memory_, reseed_
from dnc.centroids.decision import Decision, nearest_cases
from dnc.centroids.health import Health
from dnc.centroids.interpolation import Sampling
from dnc.centroids.lot import at_most_of_each_class
from dnc.centroids.memory import Memory
from dnc.centroids.similarity import (
    Scores,
    nearest_scores,
    normalised,
    similarities,
    soft_class_scores,
)
from dnc.centroids.start import Start, positive_directions
from dnc.centroids.ties import Ties
from dnc.centroids.update import follow_, seeded
from dnc.centroids.validation import (
    Rows,
    channels_last,
    is_map,
    labelled_rows,
    numbers_per_class,
    require_finite,
    require_settings,
)
from dnc.errors import InvalidSetting, NothingAbsorbed


class SubCentroidHead(nn.Module):
    """Classifies features by the nearest sub-centroid of any class; nothing in it is learnt.

    In training, call it for the scores, take a cross-entropy, step the optimizer, and only then
    let it `absorb` the same features: sub-centroids are buffers, and autograd refuses a buffer
    that was written between forward and backward.

    Features come as `(..., dim)` or as channel-first maps `(n, dim, h, w)`; their length does not
    matter. Everything is computed in float32 or better, under autocast too, and `half()` or
    `to(bfloat16)` leave the sub-centroids in float32: steps of one thousandth are lost in less.

    Under torch.distributed every process calls `absorb`, `recluster`, `start_from`, `whole_memory`
    at the same point, with its own rows or none; the result is that of one process with all rows.
    Each keeps the memory of its share of the classes, everything else is the same on all.

    Once sub-centroids are tied to images (`anchor`) they no longer cluster: each is the feature of
    its image, renewed whenever `absorb` sees the image again.

    Args:
        dim: dimension of the features.
        classes: number of classes.
        subcentroids: sub-centroids of each class, one number for all or one for each (K).
        momentum: share of a sub-centroid that stays in each update (mu in Eq. 8).
        memory_rows: rows of earlier batches that take part in the clustering, divided evenly
            among the classes; 0 clusters each batch by itself. A class that brings more rows in
            one batch than its share is clustered by the last of them.
        memory_dtype: float32, bfloat16 or float16.
        batch_means: sub-centroids move to the means of the rows of the batch alone (Eq. 8 to the
            letter), and the memory takes part in the clustering only.
        epsilon: entropy of the transport plan (Eq. 6).
        iterations: Sinkhorn-Knopp iterations.
        temperature: scores are cosines (with `keep_length`, times lengths) divided by this.
        keep_length: features keep their length in the scores, so that a network can say how sure
            it is, as in front of a linear layer; otherwise they have length 1 (Eq. 7). The
            decision on a row, which is by cosines, is the same; between positions of a map the
            longer feature counts for more.
        training_scores: how a class is scored in training, by all of its sub-centroids
            (`soft_class_scores`) or by the nearest (`class_scores`, Eq. 7 as it is printed).
            Decisions and evaluation are by the nearest in any case.
        start: where the sub-centroids begin: `positive_directions` or another of `start.py`.
        assign: the clustering rule, `sinkhorn` or `kmeans` or your own.
        only_correct: absorb only rows that are classified correctly; of a class that has absorbed
            nothing yet, all. (The paper's pseudo-code leaves the others out of the means; here
            they take no part in the clustering either.)
        rows_per_class: most rows of a class that a batch brings to the clustering; of more, as in
            batches of pixels, these are drawn by lot. None takes all.
        reseed_after: put a sub-centroid on the row that its class covers worst once it was left
            without rows in this many clusterings of its class in succession; None never does.
        ignore_index: label of rows to leave out.
        seed: of the lots.
        generator: source of the random start.

    Attributes:
        centroids: the sub-centroids, of length 1.
        valid: which of the `k` places each class uses.
        occupied: which have ever absorbed a row. Only these can win in evaluation.
        held: rows that each held at the last clustering of its class.
        idle: clusterings of its class since each last held a row.
        steps: how many batches were absorbed.
        ties: the images that they are tied to, if they are.

    """

    centroids: Float[Tensor, "c k d"]
    valid: Bool[Tensor, "c k"]
    occupied: Bool[Tensor, "c k"]
    held: Int[Tensor, "c k"]
    idle: Int[Tensor, "c k"]
    steps: Int[Tensor, ""]
    ties: Ties
    memory: Memory | None

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        subcentroids: int | Sequence[int] = 4,
        momentum: float = 0.999,
        memory_rows: int = 0,
        memory_dtype: torch.dtype = torch.float32,
        batch_means: bool = False,
        epsilon: float = 0.05,
        iterations: int = 3,
        temperature: float = 0.1,
        keep_length: bool = False,
        training_scores: Scores = soft_class_scores,
        start: Start = positive_directions,
        assign: Assign = sinkhorn,
        only_correct: bool = True,
        rows_per_class: int | None = None,
        reseed_after: int | None = None,
        ignore_index: int = -100,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_settings(
            ("dim", dim, dim >= 1, "at least 1"),
            ("classes", classes, classes >= 1, "at least 1"),
            ("momentum", momentum, 0 <= momentum <= 1, "between 0 and 1"),
            ("memory_rows", memory_rows, memory_rows >= 0, "0 or more"),
            ("epsilon", epsilon, epsilon > 0, "above 0"),
            ("iterations", iterations, iterations >= 1, "at least 1"),
            ("temperature", temperature, temperature > 0, "above 0"),
            *(
                (name, number, number is None or number >= 1, "1 or more")
                for name, number in (
                    ("rows_per_class", rows_per_class),
                    ("reseed_after", reseed_after),
                )
            ),
        )
        numbers = torch.tensor(numbers_per_class(subcentroids, classes))
        k = int(numbers.max())

        self.dim = dim
        self.classes = classes
        self.momentum = momentum
        self.batch_means = batch_means
        self.epsilon = epsilon
        self.iterations = iterations
        self.temperature = temperature
        self.keep_length = keep_length
        self.training_scores = training_scores
        self.assign = assign
        self.only_correct = only_correct
        self.rows_per_class = rows_per_class
        self.reseed_after = reseed_after
        self.ignore_index = ignore_index
        self.seed = seed

        self.register_buffer("centroids", start(classes, k, dim, generator=generator))
        self.register_buffer("valid", torch.arange(k) < numbers[:, None])
        self.register_buffer("occupied", torch.zeros(classes, k, dtype=torch.bool))
        self.register_buffer("held", torch.zeros(classes, k, dtype=torch.long))
        self.register_buffer("idle", torch.zeros(classes, k, dtype=torch.long))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.ties = Ties(classes, k)
        self.memory = Memory(memory_rows, dim, classes, dtype=memory_dtype) if memory_rows else None

    def forward(self, features: Tensor) -> Float[Tensor, "..."]:
        """Scores of each class, divided by the temperature: `(... c)`, or `(n c h w)` for maps.

        In training every valid sub-centroid takes part, or nothing would ever start. In evaluation
        only those that have absorbed a row do, and a class never seen scores -inf (before anything
        was absorbed, every class). Once they are tied to images, only those that are take part.
        """
        rows = channels_last(features, self.dim)
        eligible = self.occupied
        if self.training:
            eligible = torch.where(self.ties.exist, self.occupied, self.valid)
        with self._full_precision():
            x = self._scored(rows.reshape(-1, self.dim)) / self.temperature
            if self.training:
                scores = self.training_scores(similarities(x, self.centroids), eligible)
            else:
                scores = nearest_scores(x, self.centroids, eligible)
        scores = scores.reshape(*rows.shape[:-1], self.classes)
        return scores.movedim(-1, 1) if is_map(features, self.dim) else scores

    @torch.no_grad()
    def decide(self, features: Tensor) -> Decision:
        """The nearest case of each row among the occupied sub-centroids, and its rival (Eq. 5)."""
        self._require_cases()
        features = channels_last(features, self.dim)
        rows = features.reshape(-1, self.dim)
        require_finite(rows)
        with self._full_precision():
            decision = nearest_cases(normalised(rows), self.centroids, self.occupied)
        shape = features.shape[:-1]
        return Decision(
            **{name: of_rows.reshape(shape) for name, of_rows in vars(decision).items()}
        )

    @torch.no_grad()
    def decide_between(
        self, features: Float[Tensor, "d y x"], rows: Sampling, columns: Sampling
    ) -> PixelDecision:
        """The nearest case of each pixel of an image, by the features of a map of it (Eq. 5)."""
        self._require_cases()
        require_finite(features.flatten(1).mT)
        with self._full_precision():
            x = self._scored(features.movedim(0, -1))
            return nearest_cases_between(x, self.centroids, self.occupied, rows, columns)

    @torch.no_grad()
    def absorb(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> None:
        """Takes a labelled batch in: into the memory, the clustering and the sub-centroids.

        Only the classes in the batch are touched; without a row that carries a class nothing is.
        A value that cannot be used raises before anything changes.

        Args:
            features: `(... d)`, or a map `(n d h w)`.
            labels: a class for each row, or `ignore_index`.
            ids: a number that leads back to the image of each row; for a map, one for each image.

        """
        with self._full_precision():
            absorbed = self._all_rows if self.is_anchored else self._some_absorbable
            rows = self._rows_of_own_share(lambda: absorbed(features, labels, ids))
            if rows is None:
                return
            if not self.is_anchored:
                rows = self._drawn(rows)  # what several processes have drawn may be too many
            self.divide()
            self.steps += 1
            with self._own_share() as own:
                if self.is_anchored:
                    share = exchange.World.current().share(self.classes)
                    tied = self.ties.ids[share.start : share.stop]
                    follow_(own.centroids, tied, rows.features, rows.labels, rows.ids)
                elif len(rows.labels):
                    self._cluster(own, rows)

    @property
    def is_anchored(self) -> bool:
        """Whether the sub-centroids are tied to images."""
        return bool(self.ties.exist)

    @torch.no_grad()
    def anchor(self, ids: Tensor, similarity: Tensor) -> None:
        """Ties sub-centroids to images: from now on each is the feature of its image.

        They stay where they are until `absorb` or `follow` sees the images. A sub-centroid without
        an image cannot win any more, or it would decide without a case that can be shown.

        Args:
            ids: the image of each `(c k)`, -1 for none; no image twice in a class.
            similarity: cosine of each image to its sub-centroid `(c k)`, to be remembered.

        """
        self.ties.tie(ids, similarity, valid=self.valid)
        self.occupied &= self.ties.ids >= 0

    @torch.no_grad()
    def follow(self, features: Tensor, labels: Tensor, ids: Tensor) -> None:
        """Puts sub-centroids on the features of the images that they are tied to.

        For the end of a training: one process does it alone, with the images of all.
        """
        with self._full_precision():
            rows = self._all_rows(features, labels, ids)
            follow_(self.centroids, self.ties.ids, rows.features, rows.labels, rows.ids)

    @torch.no_grad()
    def recluster(self) -> None:
        """Clusters everything in the memory once and moves the sub-centroids of all its classes."""
        if self.memory is None:
            raise InvalidSetting("There is no memory to cluster; make the head with memory_rows.")
        self._require_free()
        self.divide()
        present = self.memory.written.nonzero()[:, 0]
        with self._full_precision(), self._own_share() as own:
            if len(present):
                cluster_memory_(own, self.memory, present, self.rule, self.momentum)

    @torch.no_grad()
    def settle(self, features: Tensor, labels: Tensor) -> None:
        """Puts each sub-centroid on the mean of the rows that are its own now.

        For the end of a training, with features of all its images: one process does it alone.
        """
        self._require_free()
        with self._full_precision():
            rows = self.absorbable(features, labels)
            if len(rows.labels):
                cluster_batch_(self._subcentroids, rows.features, rows.labels, self.rule, 0.0)

    @torch.no_grad()
    def start_from(self, features: Tensor, labels: Tensor) -> None:
        """Puts the sub-centroids of the classes in a batch on rows of it, far from each other.

        A start from data instead of random directions; the rows are not absorbed.
        """
        self._require_free()
        with self._full_precision():
            rows = self._rows_of_own_share(lambda: self._all_rows(features, labels))
            if rows is None:
                return
            with self._own_share() as own:
                p, nothing = own.centroids, torch.zeros_like(own.valid)
                p.copy_(seeded(p, nothing, own.valid, rows.features, rows.labels).centroids)

    def divide(self) -> None:
        """Keeps of the memory the share of the classes that this process owns.

        `absorb` does so by itself; before a state is loaded it spares the room for all classes.
        """
        if self.memory is not None:
            self.memory.keep_only(exchange.World.current().share(self.classes))

    def whole_memory(self) -> dict[str, Tensor] | None:
        """State of the memory of all classes, on the first process; None on others or without one.

        For a checkpoint, in place of the share that `state_dict` has; a head of any number of
        processes loads it. That of several processes comes to main memory.
        """
        if self.memory is None:
            return None
        self.divide()
        return exchange.whole_state(self.memory.state_dict(), self.classes)

    def labelled_rows(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> Rows:
        """Checked rows of this head's dimension that carry one of its classes."""
        return labelled_rows(
            features,
            labels,
            ids,
            dim=self.dim,
            classes=self.classes,
            ignore_index=self.ignore_index,
        )

    def absorbable(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> Rows:
        """Checked and normalised rows; if asked for, only those that are classified correctly.

        Of a class that has absorbed nothing yet all rows count.
        """
        rows = self.labelled_rows(features, labels, ids)
        if self.only_correct:
            scores = nearest_scores(normalised(rows.features), self.centroids, self.valid)
            begun = self.occupied.any(dim=1)  # or a class that is never right would never begin
            rows = rows.where((scores.argmax(dim=1) == rows.labels) | ~begun[rows.labels])
        return self._normalised(rows)

    @torch.no_grad()
    def health(self, *, idle_limit: int = 100) -> Health:
        """Whether sub-centroids have collapsed, died or gone stale.

        One of several processes may ask alone; the age is that of its share of the memory.

        Args:
            idle_limit: a sub-centroid without rows in this many clusterings of its class counts
                as dead, like one that never had any.

        """
        mean_age = self.memory.mean_age(int(self.steps)) if self.memory else torch.nan
        with self._full_precision():
            return Health.of(self._subcentroids, idle_limit=idle_limit, mean_age=mean_age)

    def extra_repr(self) -> str:
        """The settings, for the representation of the module."""
        numbers = self.valid.sum(dim=1).unique().tolist()
        k = numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}"
        return (
            f"dim={self.dim}, classes={self.classes}, subcentroids={k}, momentum={self.momentum}, "
            f"temperature={self.temperature}"
        )

    def _scored(self, features: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
        """Features as the scores take them, in full precision."""
        if not self.keep_length:
            return normalised(features)
        return features.to(torch.promote_types(features.dtype, self.centroids.dtype))

    def _full_precision(self) -> torch.autocast:
        """Cosines in half precision would be off by more than the margins of close decisions."""
        return torch.autocast(self.centroids.device.type, enabled=False)

    def _require_cases(self) -> None:
        if not self.occupied.any():
            raise NothingAbsorbed(
                "No row was absorbed yet, so there is no case to decide by. Call absorb() with "
                "training features first, or load a trained state."
            )

    def _require_free(self) -> None:
        if self.is_anchored:
            raise InvalidSetting(
                "The sub-centroids are tied to images and cannot be clustered any more; train "
                "further from this network with a new head instead."
            )

    def _all_rows(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> Rows:
        """Checked and normalised rows, right or wrong."""
        return self._normalised(self.labelled_rows(features, labels, ids))

    def _some_absorbable(self, features: Tensor, labels: Tensor, ids: Tensor | None = None) -> Rows:
        return self._drawn(self.absorbable(features, labels, ids))

    def _drawn(self, rows: Rows) -> Rows:
        """Of very many rows of a class some."""
        if self.rows_per_class is None:
            return rows
        return at_most_of_each_class(
            rows, self.rows_per_class, seed=self.seed, step=int(self.steps)
        )

    def _normalised(self, rows: Rows) -> Rows:
        return replace(rows, features=normalised(rows.features).to(self.centroids.dtype))

    def _rows_of_own_share(self, rows: Callable[[], Rows]) -> Rows | None:
        return exchange.rows_of_own_share(rows, classes=self.classes, device=self.centroids.device)

    @contextmanager
    def _own_share(self) -> Iterator[SubCentroids]:
        """The sub-centroids of this process's classes, to work on; then all processes have all."""
        yield self._subcentroids.of(exchange.World.current().share(self.classes))
        exchange.exchange_shares_([self.centroids, self.occupied, self.held, self.idle])

    def _cluster(self, own: SubCentroids, rows: Rows) -> None:
        x, labels = rows.features, rows.labels
        if self.memory is None:
            cluster_batch_(own, x, labels, self.rule, self.momentum)
        else:
            step = int(self.steps)
            self.memory.write(x, labels, rows.ids, step=step)
            since = step if self.batch_means else 0
            touched = labels.unique()
            cluster_memory_(own, self.memory, touched, self.rule, self.momentum, since=since)
        if self.reseed_after is not None:
            reseed_(own, x, labels, self.reseed_after)

    @property
    def _subcentroids(self) -> SubCentroids:
        return SubCentroids(self.centroids, self.valid, self.occupied, self.held, self.idle)

    @property
    def rule(self) -> Rule:
        """The clustering rule with its settings."""
        return partial(self.assign, epsilon=self.epsilon, iterations=self.iterations)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SubCentroidHead":
        """Moves to another device, but never to a precision in which small steps would be lost."""
        exact = self.centroids
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.centroids.dtype in (torch.float16, torch.bfloat16):
            self.centroids = exact.to(self.centroids.device)
        return self
