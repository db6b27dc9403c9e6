"""How near rows are to sub-centroids: cosine similarity, higher is nearer (Eq. 3 and 5)."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Scores of the classes, by similarities to all sub-centroids and which of these are eligible.
Scores = Callable[
    [Float[Tensor, "n c k"], Bool[Tensor, "c k"]],
    Float[Tensor, "n c"],
]

# Most values of a temporary tensor (16 MB in float32) where rows are taken in blocks: an (n k d) of
# gathered sub-centroids in the clustering, an (n c k) of cosines in decisions.
BLOCK_VALUES = 1 << 22


def normalised(vectors: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
    """Vectors of length 1, in float32 or better; a zero vector, having no direction, stays zero."""
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    # Not by `normalize`, which divides by 1e-12 here: the gradient of a zero vector would explode.
    return vectors / torch.where(length > 0, length, 1.0)


def similarities(x: Float[Tensor, "n d"], p: Float[Tensor, "c k d"]) -> Float[Tensor, "n c k"]:
    """Cosine of every normalised row to every normalised sub-centroid."""
    return torch.einsum("nd,ckd->nck", x, p.to(x.dtype))


def similarity_to_own_class(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], p: Float[Tensor, "c k d"]
) -> Float[Tensor, "n k"]:
    """Cosine of each row to the sub-centroids of its own class; no (n c k) tensor is made."""
    size = max(1, BLOCK_VALUES // (p.shape[1] * p.shape[2]))
    blocks = zip(x.split(size), labels.split(size), strict=True)
    return torch.cat(
        [torch.einsum("nd,nkd->nk", rows, p[classes].to(x.dtype)) for rows, classes in blocks]
    )


def query_blocks(
    x: Float[Tensor, "n d"], p: Float[Tensor, "c k d"]
) -> tuple[Float[Tensor, "_ d"], ...]:
    """The rows in blocks that are small enough to be compared with every sub-centroid at once."""
    blocks: tuple[Tensor, ...] = x.split(max(1, BLOCK_VALUES // (p.shape[0] * p.shape[1])))
    return blocks


def class_scores(
    similarity: Float[Tensor, "n c k"], eligible: Bool[Tensor, "c k"]
) -> Float[Tensor, "n c"]:
    """Similarity to the nearest eligible sub-centroid of each class; -inf where there is none."""
    return similarity.masked_fill(~eligible, -torch.inf).amax(dim=2)


def nearest_scores(
    x: Float[Tensor, "n d"], p: Float[Tensor, "c k d"], eligible: Bool[Tensor, "c k"]
) -> Float[Tensor, "n c"]:
    """`class_scores` of rows, in blocks: no (n c k) tensor of many rows is made."""
    # A graph that is compiled or exported has one block: it cannot know how many there will be.
    blocks = (x,) if torch.compiler.is_compiling() else query_blocks(x, p)
    return torch.cat([class_scores(similarities(block, p), eligible) for block in blocks])


def soft_class_scores(
    similarity: Float[Tensor, "n c k"], eligible: Bool[Tensor, "c k"]
) -> Float[Tensor, "n c"]:
    """A soft sum over the eligible sub-centroids of a class: logarithm of the mean exponential.

    Every one of them has a share in the gradient. Where those of a class are alike it is their
    similarity, however many they are. Similarities come divided by the temperature: the colder,
    the nearer it is to `class_scores`.
    """
    numbers = eligible.sum(dim=1).to(similarity.dtype)
    return similarity.masked_fill(~eligible, -torch.inf).logsumexp(dim=2) - numbers.log()
