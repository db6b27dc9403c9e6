"""A segmenter: a network and a decoder for a map of features, and sub-centroids or a 1x1 layer."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from dnc.centroids import PixelDecision, Sampling, SubCentroidHead, largest_between
from dnc.errors import InvalidModel
from dnc.models.centring import Centring, centring_layer
from dnc.models.decoders import DecoderSettings, auxiliary_decoder, decoder
from dnc.models.feature_maps import feature_maps, map_info
from dnc.models.headed import Headed
from dnc.models.heads import AnyHead
from dnc.rivals import PixelProjection

IGNORED = -100  # the label that cross-entropy and the head leave out


@dataclass(frozen=True)
class Scores:
    """What a segmenter says of images in training.

    Attributes:
        features: of each position, as the head takes them.
        scores: of each class at each pixel.
        auxiliary: the same from the last map but one, if the segmenter has that.
        contrasted: a vector of each position to be contrasted with others, if it has that.
    """

    features: Float[Tensor, "n d h w"]
    scores: Float[Tensor, "n c H W"]
    auxiliary: Float[Tensor, "n c H W"] | None
    contrasted: Float[Tensor, "n h w e"] | None


class Segmenter(Headed):
    """Gives a class to every pixel: backbone, projection, decoder, centring, head.

    Every position of the feature map is a row like any other. Scores of positions are mixed
    bilinearly for the pixels between them, as those of a 1x1 convolution are.

    Args:
        backbone: a network of timm without its last layer.
        head: sub-centroids, or a linear layer, which on rows is a 1x1 convolution.
        settings: of the decoder.
        projection: of a classifier that this network comes from; None for none.
        centring: what is taken out of the features, as for `centring_layer`.
        auxiliary: whether the last map but one has a classifier of its own in training (deep
            supervision). It is linear for either kind, and nothing is decided by it.
        contrast: whether features are projected to be contrasted in training (ContrastiveSeg).

    Attributes:
        stride: pixels between two positions of the feature map.
        multiple: images are padded to a multiple of this, so that positions lie evenly.

    """

    backbone: nn.Module
    projection: nn.Module
    decoder: nn.Module
    centring: nn.Module
    auxiliary: nn.Module | None
    contrast: PixelProjection | None

    def __init__(
        self,
        backbone: nn.Module,
        head: AnyHead,
        settings: DecoderSettings,
        *,
        projection: nn.Linear | None = None,
        centring: Centring = "none",
        auxiliary: bool = False,
        contrast: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(head, SubCentroidHead | nn.Linear):
            raise InvalidModel(
                f"The head is a {type(head).__name__}, which is for whole images; a segmenter "
                "takes sub-centroids ('dnc') or a linear layer ('softmax')."
            )
        self.settings = settings
        self.maps = map_info(backbone)
        if projection is not None:
            channels = (*self.maps.channels[:-1], projection.out_features)
            self.maps = replace(self.maps, channels=channels)
        self.backbone = backbone
        self.projection = nn.Identity() if projection is None else projection
        self.decoder, self.stride = decoder(settings, self.maps)
        self.multiple = max(self.maps.strides)
        self.head = head
        if self.dim != settings.dim:
            raise InvalidModel(
                f"The decoder gives features of dimension {settings.dim}, but the head takes "
                f"{self.dim}; make them equal."
            )
        self.centring = centring_layer(centring, self.dim)
        self.auxiliary = None
        if auxiliary:
            between, channels_between = auxiliary_decoder(self.maps, norm=settings.norm)
            layer = nn.Conv2d(channels_between, self.classes, 1)
            self.auxiliary = nn.Sequential(between, layer)
        self.contrast = PixelProjection(self.dim) if contrast else None

    def features(self, images: Float[Tensor, "n 3 H W"]) -> Float[Tensor, "n d h w"]:
        """Features of each position, as the head takes them."""
        return self._decoded(self._maps(images))

    def forward(self, images: Float[Tensor, "n 3 H W"]) -> Float[Tensor, "n c H W"]:
        """Scores of each class at each pixel."""
        return self.pixel_scores(self.features(images), images)

    def training_scores(self, images: Float[Tensor, "n 3 H W"]) -> Scores:
        """All that a loss and the clustering need."""
        maps = self._maps(images)
        features = self._decoded(maps)
        auxiliary = None
        if self.auxiliary is not None:
            between = maps[-2] if len(maps) > 1 else maps[-1]
            auxiliary = self._enlarged(self.auxiliary(between), images)
        contrasted = None if self.contrast is None else self.contrast(features)
        return Scores(features, self.pixel_scores(features, images), auxiliary, contrasted)

    @torch.no_grad()
    def decide(
        self,
        features: Float[Tensor, "d h w"],
        size: tuple[int, int],
        *,
        seen: tuple[int, int] | None = None,
    ) -> PixelDecision:
        """The nearest case of each pixel, by the features of one image (Eq. 5).

        Args:
            features: of the positions of the image.
            size: height and width of the image.
            seen: height and width at which the network saw it; None for the same.

        """
        return self.subcentroid_head.decide_between(
            features, *self._samplings(features, size, seen)
        )

    @torch.no_grad()
    def labels(
        self,
        features: Float[Tensor, "d h w"],
        size: tuple[int, int],
        *,
        seen: tuple[int, int] | None = None,
    ) -> Int[Tensor, "H W"]:
        """The class of each pixel; arguments as for `decide`."""
        if isinstance(self.head, SubCentroidHead):
            return self.decide(features, size, seen=seen).label
        scores = self.head(features.movedim(0, -1)).float()
        return largest_between(scores, *self._samplings(features, size, seen))

    def labels_of_positions(self, labels: Int[Tensor, "n H W"]) -> Int[Tensor, "n h w"]:
        """The class of the pixel in the middle of each position."""
        height, width = (-(-side // self.multiple) * self.multiple for side in labels.shape[1:])
        padded = functional.pad(
            labels, (0, width - labels.shape[2], 0, height - labels.shape[1]), value=IGNORED
        )
        middle = self.stride // 2
        return padded[:, middle :: self.stride, middle :: self.stride]

    def _maps(self, images: Float[Tensor, "n 3 H W"]) -> list[Tensor]:
        height, width = (-side % self.multiple for side in images.shape[2:])
        # The mean colour, as images are normalised.
        images = functional.pad(images, (0, width, 0, height)) if height or width else images
        maps = feature_maps(self.backbone, images, self.maps)
        if not isinstance(self.projection, nn.Identity):
            maps[-1] = self.projection(maps[-1].movedim(1, -1)).movedim(-1, 1)
        return maps

    def _decoded(self, maps: list[Tensor]) -> Float[Tensor, "n d h w"]:
        decoded: Tensor = self.decoder(maps)
        if isinstance(self.centring, nn.Identity):
            return decoded
        rows = decoded.movedim(1, -1)
        centred: Tensor = self.centring(rows.flatten(0, 2))
        return centred.view_as(rows).movedim(-1, 1)

    def pixel_scores(
        self, features: Float[Tensor, "n d h w"], images: Float[Tensor, "n 3 H W"]
    ) -> Float[Tensor, "n c H W"]:
        """Scores of each class at each pixel of images, by the features of their positions."""
        if not isinstance(self.head, SubCentroidHead):
            scores = self.head(features.movedim(1, -1)).movedim(-1, 1)
            return self._enlarged(scores, images)
        scores = self.head(features)
        if self.training:
            return self._enlarged(scores, images)
        # A class without a case scores -inf, of which there is no mixture.
        unseen = ~self.head.occupied.any(dim=1)[:, None, None]
        mixable = scores.masked_fill(unseen, 0.0)
        return self._enlarged(mixable, images).masked_fill(unseen, -torch.inf)

    def _enlarged(
        self, scores: Float[Tensor, "n c h w"], images: Float[Tensor, "n 3 H W"]
    ) -> Float[Tensor, "n c H W"]:
        """Scores for each pixel; half precision would blur the differences of close ones."""
        height, width = images.shape[2:]
        padded = [-(-side // self.multiple) * self.multiple for side in (height, width)]
        scores = functional.interpolate(scores.float(), size=padded, mode="bilinear")
        return scores[..., :height, :width]

    def _samplings(
        self,
        features: Float[Tensor, "d h w"],
        size: tuple[int, int],
        seen: tuple[int, int] | None,
    ) -> tuple[Sampling, Sampling]:
        rows, columns = (
            Sampling.of(
                positions, pixels, step=self.stride * pixels / shown, device=features.device
            )
            for positions, pixels, shown in zip(features.shape[1:], size, seen or size, strict=True)
        )
        return rows, columns
