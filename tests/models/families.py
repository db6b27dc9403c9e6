"""One small network of each family of timm (a module of `timm.models`), and its smallest image."""

from dataclasses import dataclass, field
from typing import Any

import timm
from timm.models import get_pretrained_cfg
from torch import nn


@dataclass(frozen=True)
class Family:
    module: str
    name: str
    size: int = 32
    options: dict[str, Any] = field(default_factory=dict)

    def network(self, classes: int) -> nn.Module:
        config = get_pretrained_cfg(self.name)
        size = self.size if config is not None and config.fixed_input_size else None
        return timm.create_model(self.name, num_classes=classes, img_size=size, **self.options)


# Made shallower than they come, which changes nothing about how they end.
SHALLOW = {"depth": 2}

FAMILIES = [
    Family("beit", "beit_base_patch16_224", options=SHALLOW),
    Family("byoanet", "lambda_resnet26t"),
    Family("byobnet", "test_byobnet"),
    Family("cait", "cait_xxs24_224"),
    Family("coat", "coat_tiny"),
    Family("convit", "convit_tiny"),
    Family("convmixer", "convmixer_1024_20_ks9_p14", size=56),
    Family("convnext", "test_convnext"),
    Family("cpubone", "cpubone_nano"),
    Family("csatv2", "csatv2", size=64),
    Family("cspnet", "cs3darknet_focus_s"),
    Family("davit", "davit_tiny"),
    Family("deepseek_vit", "deepseek_vit_412m", size=28, options=SHALLOW),
    Family("deit", "deit_tiny_patch16_224"),
    Family("densenet", "densenet121"),
    Family("dla", "dla46x_c"),
    Family("dpn", "dpn48b"),
    Family("edgenext", "edgenext_xx_small"),
    Family("efficientformer", "efficientformer_l1", size=224),
    Family("efficientformer_v2", "efficientformerv2_s0"),
    Family("efficientnet", "test_efficientnet"),
    Family("efficientvit_mit", "efficientvit_b0"),
    Family("efficientvit_msra", "efficientvit_m0"),
    Family("eva", "eva02_tiny_patch14_224"),
    Family("fasternet", "fasternet_t0"),
    Family("fastvit", "fastvit_t8"),
    Family("focalnet", "focalnet_tiny_srf"),
    Family("gcvit", "gcvit_xxtiny"),
    Family("gemma4_vit", "gemma4_vit_167m", options=SHALLOW),
    Family("ghostnet", "ghostnet_050"),
    Family("hardcorenas", "hardcorenas_b"),
    Family("hgnet", "hgnetv2_b0"),
    Family("hiera", "hiera_tiny_224"),
    Family("hieradet_sam2", "hieradet_small"),
    Family("hrnet", "hrnet_w18_small"),
    Family("iformer", "iformer_t"),
    Family("inception_next", "inception_next_atto"),
    Family("inception_resnet_v2", "inception_resnet_v2", size=96),
    Family("inception_v3", "inception_v3", size=75),
    Family("inception_v4", "inception_v4", size=160),
    Family("lcnetv2", "lcnetv2_small"),
    Family("levit", "levit_128s"),
    Family("lowformer", "lowformer_b0"),
    Family("mambaout", "test_mambaout"),
    Family("maxxvit", "maxvit_pico_rw_256"),
    Family("metaformer", "poolformerv2_s12"),
    Family("mlp_mixer", "gmlp_ti16_224"),
    Family("mobilenetv3", "mobilenetv3_small_050"),
    Family("mobilenetv5", "mobilenetv5_base"),
    Family("mobilevit", "mobilevit_xxs"),
    Family("mvitv2", "mvitv2_tiny"),
    Family("naflexvit", "naflexvit_base_patch16_parfac_gap", options=SHALLOW),
    Family("nasnet", "nasnetalarge"),
    Family("nest", "nest_tiny"),
    Family("nextvit", "nextvit_small"),
    Family("nfnet", "test_nfnet"),
    Family("pit", "pit_ti_224"),
    Family("pnasnet", "pnasnet5large"),
    Family("pvt_v2", "pvt_v2_b0"),
    Family("qwen3_vit", "qwen3_vit_88m", options=SHALLOW),
    Family("rdnet", "rdnet_tiny"),
    Family("regnet", "regnetx_002"),
    Family("repghost", "repghostnet_050"),
    Family("repvit", "repvit_m1"),
    Family("res2net", "res2next50"),
    Family("resnest", "resnest14d"),
    Family("resnet", "test_resnet"),
    Family("resnetv2", "resnetv2_18"),
    Family("rexnet", "rexnet_100"),
    Family("selecsls", "selecsls42"),
    Family("senet", "legacy_seresnet18"),
    Family("sequencer", "sequencer2d_s"),
    Family("shvit", "shvit_s1"),
    Family("sknet", "skresnet18"),
    Family("starnet", "starnet_s050"),
    Family("swiftformer", "swiftformer_xs"),
    Family("swin_transformer", "swin_tiny_patch4_window7_224"),
    Family("swin_transformer_v2", "swinv2_tiny_window8_256", size=64),
    Family("swin_transformer_v2_cr", "swinv2_cr_tiny_224"),
    Family("tiny_vit", "tiny_vit_5m_224"),
    Family("tnt", "tnt_s_legacy_patch16_224"),
    Family("tresnet", "tresnet_m"),
    Family("twins", "twins_svt_small"),
    Family("vgg", "vgg11", options={"mlp_ratio": 0.1}),
    Family("visformer", "visformer_tiny"),
    Family("vision_transformer", "test_vit"),
    Family("vision_transformer_hybrid", "vit_tiny_r_s16_p8_224"),
    Family("vision_transformer_relpos", "vit_srelpos_small_patch16_224"),
    Family("vision_transformer_sam", "samvit_base_patch16_224", options=SHALLOW),
    Family("vitamin", "vitamin_small_224"),
    Family("volo", "volo_d1_224", options={"use_aux_head": False}),
    Family("vovnet", "ese_vovnet19b_slim_dw"),
    Family("xception", "legacy_xception"),
    Family("xception_aligned", "xception41p"),
    Family("xcit", "xcit_nano_12_p8_224"),
]

# Their last layer has a normalisation of its own, which timm counts to it and we keep.
NORMALISED_BEFORE_THE_LAST_LAYER = {"efficientvit_msra", "iformer", "levit", "repvit", "shvit"}

NOT_CONVERTED = {"crossvit": "crossvit_tiny_240", "efficientvim": "efficientvim_m1"}
