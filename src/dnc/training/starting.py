"""Sub-centroids that begin as clusters of features, found to convergence."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dnc.centroids import SubCentroidHead
from dnc.data import Images, Preprocessing
from dnc.data.splitting import at_most_per_class
from dnc.errors import InvalidData
from dnc.estimator import NearestSubCentroids
from dnc.models import Classifier
from dnc.training.features import Features, features_of

# Clusters of a class are clear from this many images for each sub-centroid.
IMAGES_PER_SUBCENTROID = 50


def start_from_images_(
    model: Classifier, images: Images, preprocessing: Preprocessing, *, workers: int | None
) -> None:
    """Puts the sub-centroids on clusters of what the network sees in training images now.

    Batch normalisation that centres the features takes over their mean and spread. Classes with
    very many images are represented by some of them.
    """
    head = model.head
    assert isinstance(head, SubCentroidHead)
    most = IMAGES_PER_SUBCENTROID * head.centroids.shape[1]
    was_training = model.training
    centring, model.centring = model.centring, nn.Identity()
    try:
        chosen = at_most_per_class(images, most, seed=0)
        features = features_of(model, chosen, preprocessing, cache=None, workers=workers)
    finally:
        model.centring = centring
        model.train(was_training)
    if isinstance(centring, nn.BatchNorm1d):
        centring.load_state_dict(centring_of(features.rows).state_dict())
    start_from_features_(model, features)


def start_from_features_(model: Classifier, features: Features) -> int:
    """Puts the sub-centroids on clusters of features that are not centred yet; rounds it took."""
    head = model.head
    assert isinstance(head, SubCentroidHead)
    was_training = model.centring.training
    device = head.centroids.device
    with torch.no_grad():
        centred = model.centring.eval()(features.rows.to(device)).cpu()
    model.centring.train(was_training)
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
    head.centroids[present, :k] = torch.from_numpy(clusters.centroids_).to(head.centroids)
    head.occupied[present, :k] = held > 0
    head.held[present, :k] = held.round().long()
    head.steps += 1
    return int(clusters.n_iter_)


def centring_of(rows: Float[Tensor, "n d"]) -> nn.BatchNorm1d:
    """Batch normalisation without parameters that takes the mean and spread of rows out of them."""
    if len(rows) < 2:
        raise InvalidData(f"There are {len(rows)} readable training images; at least 2 are needed.")
    layer = nn.BatchNorm1d(rows.shape[1], affine=False).eval()
    variance, mean = torch.var_mean(rows.double(), dim=0)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    layer.running_mean.copy_(mean)
    # A dimension that is always the same says nothing; dividing by its spread would be noise.
    layer.running_var.copy_(torch.where(variance > 1e-12, variance, 1.0))
    return layer
