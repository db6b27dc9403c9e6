"""Sub-centroids that are put on clusters of features of training images, found to convergence."""

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from sklearn.covariance import ledoit_wolf_shrinkage
from torch import nn

from dnc.centroids import SubCentroidHead
from dnc.centroids.exchange import as_first_
from dnc.centroids.segments import Bags
from dnc.centroids.update import cluster_means
from dnc.data import DataSplits, Images, Preprocessing
from dnc.data.splitting import at_most_per_class
from dnc.errors import InvalidData
from dnc.estimator import NearestSubCentroids
from dnc.models import Classifier, Whitening
from dnc.recognition import Recognizer
from dnc.training.features import Features, features_of
from dnc.training.recipe import Recipe

# Clusters of a class are clear from this many images for each sub-centroid.
IMAGES_PER_SUBCENTROID = 50


class ClustersOfData(Callback):
    """Puts the sub-centroids of a run where the network sees the classes, at certain epochs.

    To begin with (`head.start: data`), or again and again (`head.offline_every`). Every process
    looks at the same images; but they need not quite agree on what they see, since batch norms
    count each process's own batches. What the first one has found is what all of them go on with.
    """

    def __init__(self, recipe: Recipe, splits: DataSplits) -> None:
        self.recipe = recipe
        self.splits = splits

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Clusters, if this is an epoch that the recipe names."""
        asked, epoch = self.recipe.head, trainer.current_epoch
        begins = asked.start == "data" and epoch == asked.start_epoch
        every = asked.offline_every
        is_due = every is not None and epoch > 0 and epoch % every == 0
        if begins or is_due:
            assert self.splits.train is not None
            recognizer: Recognizer = pl_module.recognizer  # type: ignore[assignment]
            start_from_images_(
                recognizer.model,
                self.splits.train,
                recognizer.preprocessing,
                workers=self.recipe.data.workers,
                most=None if is_due else IMAGES_PER_SUBCENTROID,
            )
            head, centring = recognizer.model.head, recognizer.model.centring
            as_first_([*head.buffers(recurse=False), *centring.buffers()])
            pl_module.copy_centring_to_average()  # type: ignore[operator]


def start_from_images_(
    model: Classifier,
    images: Images,
    preprocessing: Preprocessing,
    *,
    workers: int | None,
    most: int | None = IMAGES_PER_SUBCENTROID,
) -> None:
    """Puts the sub-centroids on clusters of what the network sees in training images now.

    The layer that centres the features takes over their statistics; under a linear layer that is
    all.

    Args:
        model: the network and its sub-centroids.
        images: training images.
        preprocessing: of the images.
        workers: processes that read images.
        most: images for each sub-centroid, by which larger classes are represented; None takes all.

    """
    head = model.head
    k = head.centroids.shape[1] if isinstance(head, SubCentroidHead) else 1
    was_training = model.training
    centring, model.centring = model.centring, nn.Identity()
    try:
        chosen = images if most is None else at_most_per_class(images, most * k, seed=0)
        features = features_of(model, chosen, preprocessing, cache=None, workers=workers)
    finally:
        model.centring = centring
        model.train(was_training)
    if isinstance(head, SubCentroidHead):
        start_from_features_(head, centring, features)
    else:
        set_centring_(centring, features)


def start_from_features_(head: SubCentroidHead, centring: nn.Module, features: Features) -> int:
    """Sets the statistics of the centring, then the sub-centroids to clusters of what it gives.

    Returns the rounds that it took.
    """
    set_centring_(centring, features)
    was_training = centring.training
    device = head.centroids.device
    with torch.no_grad():
        centred = centring.eval()(features.rows.to(device)).cpu()
    centring.train(was_training)
    numbers = head.valid.sum(dim=1).cpu()[features.labels.unique()]
    clusters = NearestSubCentroids(
        numbers.tolist(),
        epsilon=head.epsilon,
        iterations=head.iterations,
        assign=head.assign,
    ).fit(centred.numpy(), features.labels.numpy())
    present = torch.from_numpy(clusters.classes_).long().to(device)
    held = torch.from_numpy(clusters.counts_).to(device)
    k = held.shape[1]
    # Of a class with fewer images than sub-centroids some have none, and stay where they were.
    found = torch.from_numpy(clusters.centroids_).to(head.centroids)
    head.centroids[present, :k] = torch.where(
        (held > 0)[..., None], found, head.centroids[present, :k]
    )
    head.occupied[present, :k] = held > 0
    head.held[present, :k] = held.round().long()
    head.idle[present] = 0
    head.steps += 1
    return int(clusters.n_iter_)


def set_centring_(layer: nn.Module, features: Features) -> None:
    """Gives a layer that centres features the statistics of these."""
    rows = features.rows.double()
    if len(rows) < 2:
        raise InvalidData(f"There are {len(rows)} readable training images; at least 2 are needed.")
    variance, mean = torch.var_mean(rows, dim=0)
    if isinstance(layer, nn.BatchNorm1d):
        assert layer.running_mean is not None
        assert layer.running_var is not None
        layer.running_mean.copy_(mean)
        # A dimension that is always the same says nothing; dividing by its spread would be noise.
        layer.running_var.copy_(torch.where(variance > 1e-12, variance, 1.0))
    elif isinstance(layer, Whitening):
        classes = Bags.of(features.labels, int(features.labels.max()) + 1)
        inside = rows - cluster_means(rows, classes).mean[features.labels]
        covariance = inside.T @ inside / len(inside)
        shrinkage = float(ledoit_wolf_shrinkage(inside.numpy(), assume_centered=True))
        layer.set_(mean, covariance, shrinkage)
