"""What a classifier and a segmenter have in common: a head that decides."""

from torch import nn

from dnc.centroids import SubCentroidHead
from dnc.errors import InvalidModel
from dnc.models.heads import AnyHead, Kind, kind_of


class Headed(nn.Module):
    """A model that ends in sub-centroids, in a linear layer, or in another classifier."""

    head: AnyHead

    @property
    def dim(self) -> int:
        """Dimension of the features that the head takes."""
        return self.head.in_features if isinstance(self.head, nn.Linear) else self.head.dim

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.head.out_features if isinstance(self.head, nn.Linear) else self.head.classes

    @property
    def kind(self) -> Kind:
        """Which kind of classifier it ends in."""
        return kind_of(self.head)

    @property
    def is_dnc(self) -> bool:
        """Whether it decides by sub-centroids."""
        return isinstance(self.head, SubCentroidHead)

    @property
    def subcentroid_head(self) -> SubCentroidHead:
        """The sub-centroids; an error if it ends in something else."""
        if not isinstance(self.head, SubCentroidHead):
            raise InvalidModel(
                f"This model is of kind '{self.kind}' and has no sub-centroids, so it has no cases "
                "to decide, explain or report by; train one with model.classifier=dnc."
            )
        return self.head
