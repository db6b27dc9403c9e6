"""An image classifier: a network for features, and sub-centroids or a rival of theirs on top."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dnc.centroids import Decision
from dnc.errors import InvalidModel
from dnc.models.centring import Centring, centring_layer
from dnc.models.headed import Headed
from dnc.models.heads import DEFAULT_HEAD, AnyHead, HeadSettings, Kind, linear, new_head


class Classifier(Headed):
    """Classifies images: backbone, projection, centring, head.

    Train it like any network: cross-entropy of its output, backward, optimizer step; and then,
    for sub-centroids, `classifier.head.absorb(features, labels)`.

    Args:
        backbone: images `(n 3 h w)` to features `(n d)`.
        head: sub-centroids, a linear layer, or one of `dnc.rivals`.
        projection: features of the backbone to features of the head, or None for none.
        centring: what is taken out of the features, as for `centring_layer`.

    """

    backbone: nn.Module
    projection: nn.Module
    centring: nn.Module

    def __init__(
        self,
        backbone: nn.Module,
        head: AnyHead,
        *,
        projection: nn.Linear | None = None,
        centring: Centring = "none",
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Identity() if projection is None else projection
        self.head = head
        self.centring = centring_layer(centring, self.dim)
        if projection is not None and projection.out_features != self.dim:
            raise InvalidModel(
                f"The projection gives features of dimension {projection.out_features}, but the "
                f"head takes {self.dim}; make them equal."
            )

    def features(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """Features of each image, as the head takes them."""
        rows = self.backbone(images)
        if not isinstance(rows, Tensor) or rows.ndim != 2:
            came = f"shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise InvalidModel(
                f"The backbone gave {came} instead of one row of features for each image (n d); "
                "use a network that pools its features, or name its last layer."
            )
        projected: Tensor = self.centring(self.projection(rows))
        if projected.shape[1] != self.dim:
            raise InvalidModel(
                f"The backbone gave features of dimension {projected.shape[1]}, but the head takes "
                f"{self.dim}; was the layer that was taken away really the last one?"
            )
        return projected

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c"]:
        """Scores of each class."""
        scores: Tensor = self.head(self.features(images))
        return scores

    def decide(self, images: Float[Tensor, "n 3 h w"]) -> Decision:
        """The nearest case of each image, and its rival (Eq. 5)."""
        head = self.subcentroid_head
        with torch.no_grad():
            return head.decide(self.features(images))

    def with_classes(
        self,
        classes: int,
        *,
        settings: HeadSettings = DEFAULT_HEAD,
        kind: Kind | None = None,
        generator: torch.Generator | None = None,
    ) -> "Classifier":
        """A classifier of other classes on the very same backbone, projection and centring.

        Their modules are shared with this classifier, not copied; the head is new.

        Args:
            classes: number of classes.
            settings: settings of the new head.
            kind: of the new head; None keeps the kind of this classifier.
            generator: source of the random start.

        """
        kind = kind or self.kind
        head = new_head(kind, self.dim, classes, settings=settings, generator=generator)
        tensor = next(iter(self.head.state_dict().values()))
        head.to(tensor.device).train(self.head.training)
        other = Classifier(self.backbone, head)
        other.projection, other.centring = self.projection, self.centring
        other.training = self.training
        return other


def assembled(
    backbone: nn.Module,
    dim: int,
    classes: int,
    *,
    kind: Kind,
    settings: HeadSettings,
    projection: int | None,
    centring: Centring,
    generator: torch.Generator | None,
) -> Classifier:
    """A classifier on a backbone that gives features of dimension `dim`."""
    layer = None if projection is None else linear(dim, projection, generator=generator)
    head = new_head(kind, projection or dim, classes, settings=settings, generator=generator)
    return Classifier(backbone, head, projection=layer, centring=centring)
