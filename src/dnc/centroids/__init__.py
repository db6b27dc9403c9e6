"""The algorithm of Deep Nearest Centroids, on torch alone."""

from dnc.centroids.assignment import Assign, kmeans, sinkhorn, transport_plan
from dnc.centroids.decision import Decision, decide
from dnc.centroids.head import SubCentroidHead
from dnc.centroids.health import Health
from dnc.centroids.memory import Memory
from dnc.centroids.processes import exempt_from_broadcast
from dnc.centroids.similarity import (
    class_scores,
    normalised,
    similarities,
    similarity_to_own_class,
)

__all__ = [
    "Assign",
    "Decision",
    "Health",
    "Memory",
    "SubCentroidHead",
    "class_scores",
    "decide",
    "exempt_from_broadcast",
    "kmeans",
    "normalised",
    "similarities",
    "similarity_to_own_class",
    "sinkhorn",
    "transport_plan",
]
