"""The algorithm of Deep Nearest Centroids, on torch alone."""

from dnc.centroids.assignment import Assign, kmeans, sinkhorn, transport_plan
from dnc.centroids.between import PixelDecision
from dnc.centroids.decision import Decision, decide
from dnc.centroids.fidelity import Fidelity
from dnc.centroids.head import SubCentroidHead
from dnc.centroids.health import Health
from dnc.centroids.interpolation import Sampling, largest_between, mixed
from dnc.centroids.memory import Memory
from dnc.centroids.processes import exempt_from_broadcast
from dnc.centroids.similarity import (
    Scores,
    class_scores,
    normalised,
    similarities,
    similarity_to_own_class,
    soft_class_scores,
)
from dnc.centroids.start import (
    Start,
    close_directions,
    orthogonal_directions,
    positive_directions,
    random_directions,
)
from dnc.centroids.update import momentum_at

__all__ = [
    "Assign",
    "Decision",
    "Fidelity",
    "Health",
    "Memory",
    "PixelDecision",
    "Sampling",
    "Scores",
    "Start",
    "SubCentroidHead",
    "class_scores",
    "close_directions",
    "decide",
    "exempt_from_broadcast",
    "kmeans",
    "largest_between",
    "mixed",
    "momentum_at",
    "normalised",
    "orthogonal_directions",
    "positive_directions",
    "random_directions",
    "similarities",
    "similarity_to_own_class",
    "sinkhorn",
    "soft_class_scores",
    "transport_plan",
]
