"""How near rows are to sub-centroids: cosine similarity, higher is nearer (Eq. 3 and 5)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

# Gathering the sub-centroids of each row's class makes an (n k d) tensor: rows are taken in
# chunks, so that it never holds more values than this (16 MB in float32).
GATHERED_VALUES = 1 << 22


def normalised(vectors: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
    """Vectors of length 1, in float32 or better; a zero vector, having no direction, stays zero."""
    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1)


def similarity(x: Float[Tensor, "n d"], p: Float[Tensor, "c k d"]) -> Float[Tensor, "n c k"]:
    """Cosine of every normalised row to every normalised sub-centroid."""
    return torch.einsum("nd,ckd->nck", x, p.to(x.dtype))


def similarity_to_own_class(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], p: Float[Tensor, "c k d"]
) -> Float[Tensor, "n k"]:
    """Cosine of each row to the sub-centroids of its own class; no (n c k) tensor is made."""
    chunk = max(1, GATHERED_VALUES // (p.shape[1] * p.shape[2]))
    chunks = [
        torch.einsum("nd,nkd->nk", rows, p[classes].to(x.dtype))
        for rows, classes in zip(x.split(chunk), labels.split(chunk), strict=True)
    ]
    return torch.cat(chunks) if chunks else x.new_empty(0, p.shape[1])


def class_scores(
    similarity: Float[Tensor, "n c k"], eligible: Bool[Tensor, "c k"]
) -> Float[Tensor, "n c"]:
    """Similarity to the nearest eligible sub-centroid of each class; -inf where there is none."""
    return similarity.masked_fill(~eligible, -torch.inf).amax(dim=2)
