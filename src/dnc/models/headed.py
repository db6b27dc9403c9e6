"""What a classifier and a segmenter have in common: a head that decides."""

from torch import nn

from dnc.centroids import SubCentroidHead


class Headed(nn.Module):
    """A model that ends in sub-centroids or in a linear layer."""

    head: SubCentroidHead | nn.Linear

    @property
    def dim(self) -> int:
        """Dimension of the features that the head takes."""
        return self.head.dim if isinstance(self.head, SubCentroidHead) else self.head.in_features

    @property
    def classes(self) -> int:
        """Number of classes."""
        if isinstance(self.head, SubCentroidHead):
            return self.head.classes
        return self.head.out_features

    @property
    def is_dnc(self) -> bool:
        """Whether it decides by sub-centroids."""
        return isinstance(self.head, SubCentroidHead)
