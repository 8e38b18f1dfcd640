"""Real architectures, small and with random weights: what `examine` says of them is frozen.

python -m tests.normkit.examining.zoo [name …] [--write]

runs all of them, or those named, and compares with zoo.txt, or writes it. Needs torchvision, timm
and transformers; those that are absent are left out.
"""

import importlib.util
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FROZEN = Path(__file__).with_name("zoo.txt")
KEPT = torch.library.Library("torchvision", "FRAGMENT")
Batch = tuple[nn.Module, tuple, dict[str, Any]]
Build = Callable[[], Batch]


def images(size: int = 64, n: int = 4) -> Tensor:
    return torch.rand(n, 3, size, size) * 2 - 1


def architectures() -> Iterator[tuple[str, Build]]:
    """Names, and what builds the model and its batch, the same at every call."""
    _declare_operators()
    for library, table in LIBRARIES.items():
        if importlib.util.find_spec(library) is not None:
            for name, build in table():
                yield name, lambda build=build: _seeded(build)  # type: ignore


def _declare_operators() -> None:
    """A torchvision for CUDA beside a PyTorch without lacks operators; none is used here."""
    if not hasattr(torch.ops.torchvision, "nms"):
        KEPT.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _seeded(build: Build) -> Batch:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build()


# torchvision: sizes of images, and options

TORCHVISION: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet18": (64, {}),
    "resnet50": (64, {}),
    "resnext50_32x4d": (64, {}),
    "wide_resnet50_2": (64, {}),
    "alexnet": (64, {}),
    "mnasnet0_5": (64, {}),
    "mobilenet_v2": (64, {}),
    "mobilenet_v3_small": (64, {}),
    "densenet121": (64, {}),
    "inception_v3": (96, {"aux_logits": False, "init_weights": False}),
    "googlenet": (64, {"aux_logits": False, "init_weights": False}),
    "shufflenet_v2_x0_5": (64, {}),
    "efficientnet_b0": (64, {}),
    "efficientnet_v2_s": (64, {}),
    "regnet_y_400mf": (64, {}),
    "convnext_tiny": (64, {}),
    "swin_t": (64, {}),
    "swin_v2_t": (64, {}),
    "vgg11_bn": (64, {}),
    "deeplabv3_mobilenet_v3_large": (64, {"weights_backbone": None}),
    "fcn_resnet50": (64, {"weights_backbone": None}),
    "lraspp_mobilenet_v3_large": (64, {"weights_backbone": None}),
}
VIT = {"patch_size": 16, "num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 64}
MAXVIT = {"stem_channels": 16, "partition_size": 2, "block_channels": [16, 32]}
MAXVIT |= {"block_layers": [1, 1], "head_dim": 8, "stochastic_depth_prob": 0.0}


def torchvision() -> Iterator[tuple[str, Build]]:
    from torchvision import models
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    for name, (size, options) in TORCHVISION.items():
        make = getattr(models, name, None) or getattr(models.segmentation, name)
        yield name, lambda m=make, s=size, o=options: (m(**o), (images(s),), {})
    yield "vit_b_16", lambda: (models.VisionTransformer(64, **VIT), (images(),), {})
    yield "maxvit_t", lambda: (models.MaxVit((64, 64), **MAXVIT), (images(),), {})
    yield (
        "raft_small",
        lambda: (
            models.optical_flow.raft_small(),
            (images(128, 2), images(128, 2)),
            {"num_flow_updates": 2},
        ),
    )
    for frozen in (True, False):  # True: FrozenBatchNorm2d, as in detectors
        options = {} if frozen else {"norm_layer": nn.BatchNorm2d}
        yield (
            f"resnet_fpn{'_frozen' * frozen}",
            lambda o=options: (
                resnet_fpn_backbone(backbone_name="resnet18", weights=None, **o),
                (images(),),
                {},
            ),
        )
    for name in ("r3d_18", "r2plus1d_18", "swin3d_t"):
        yield name, lambda n=name: (getattr(models.video, n)(), (torch.rand(2, 3, 8, 32, 32),), {})


# timm: names of models at 64 pixels, or at others

TIMM = [
    "skresnet18",
    "mobilenetv4_conv_small",
    "nf_resnet26",
    "nf_regnet_b0",
    "test_nfnet",
    "resnetv2_50x1_bit",
    "levit_128s@64",
    "poolformer_s12",
    "poolformerv2_s12",
    "hrnet_w18_small",
    "visformer_tiny@64",
    "inception_next_atto",
    "fastvit_t8",
    "starnet_s050",
    "efficientformer_l1@224",
    "pvt_v2_b0",
    "mambaout_femto",
    "swinv2_cr_tiny_224@64",
    "convnextv2_atto",
    "mixer_s32_224@64",
    "gmlp_ti16_224@64",
    "resmlp_12_224@64",
    "cait_xxs24_224@64",
    "beit_base_patch16_224@64",
    "deit3_small_patch16_224@64",
    "eva02_tiny_patch14_224@56",
    "vit_base_patch16_siglip_224@64",
    "test_vit4@64",
    "rdnet_tiny",
    "tiny_vit_5m_224",
    "repvit_m0_9",
    "xcit_nano_12_p16_224@64",
    "test_coatnet@160",
    "test_maxvit@160",
    "test_efficientnet_evos",
    "test_efficientnet_gn",
    "resnest14d",
    "sequencer2d_s@64",
    "edgenext_xx_small",
    "focalnet_tiny_srf",
    "caformer_s18",
    "mobilevitv2_050",
    "efficientvit_b0",
]
TIMM_OPTIONS: dict[str, dict[str, Any]] = {
    name: {"depth": 2}
    for name in (
        "cait_xxs24_224",
        "beit_base_patch16_224",
        "deit3_small_patch16_224",
        "eva02_tiny_patch14_224",
        "vit_base_patch16_siglip_224",
        "xcit_nano_12_p16_224",
    )
}


def timm() -> Iterator[tuple[str, Build]]:
    import timm

    for each in TIMM:
        name, _, size = each.partition("@")
        options = TIMM_OPTIONS.get(name, {}) | ({"img_size": int(size)} if size else {})
        yield (
            name,
            lambda n=name, s=int(size or 64), o=options: (
                timm.create_model(n, num_classes=10, **o),
                (images(s),),
                {},
            ),
        )


# transformers: name of the class, and what differs from the sizes below

SIZES: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2}
EXPERTS = GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}
ROUTED = GROUPED | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
FOUR = GROUPED | {"num_hidden_layers": 4, "head_dim": 8, "sliding_window": 8}
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "head_dim": 8,
}
SSM = {"state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 4}
BOTH = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 1,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
T5 |= {"num_decoder_layers": 2, "decoder_start_token_id": 0}
SPEECH = {
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 4, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
}
LAYER = {"feat_extract_norm": "layer", "do_stable_layer_norm": True}
PATCHES = {"image_size": 64, "patch_size": 8, "num_key_value_heads": 4}
STAGES = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
STAGES |= {"image_size": 64, "patch_size": 4}
CONVS = {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}

TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {}),
    "bert_masked_lm": ("BertForMaskedLM", {}),
    "roberta": ("RobertaModel", {"pad_token_id": 1}),
    "roberta_prelayernorm": ("RobertaPreLayerNormModel", {"pad_token_id": 1}),
    "albert": ("AlbertModel", {"embedding_size": 16}),
    "electra": ("ElectraModel", {"embedding_size": 16}),
    "distilbert": ("DistilBertModel", {"hidden_dim": 64}),
    "deberta": ("DebertaModel", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "deberta_v2": (
        "DebertaV2Model",
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm"},
    ),
    "megatron_bert": ("MegatronBertModel", {}),
    "mobilebert": ("MobileBertModel", {"embedding_size": 16, "intra_bottleneck_size": 16}),
    "roformer": ("RoFormerModel", {"embedding_size": 32}),
    "convbert": ("ConvBertModel", {"embedding_size": 32, "conv_kernel_size": 3}),
    "xlnet": (
        "XLNetModel",
        {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
    ),
    "modernbert": ("ModernBertModel", {"num_hidden_layers": 4, "local_attention": 8}),
    "mpnet": ("MPNetModel", {"pad_token_id": 1}),
    "funnel": (
        "FunnelModel",
        {
            "vocab_size": 99,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
    ),
    "gpt2": ("GPT2LMHeadModel", {}),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {}),
    "gpt_neox_sequential": ("GPTNeoXForCausalLM", {"use_parallel_residual": False}),
    "gptj": ("GPTJForCausalLM", {"rotary_dim": 4}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", {}),
    "opt": ("OPTForCausalLM", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "opt_no_final_norm": (
        "OPTForCausalLM",
        {"ffn_dim": 64, "word_embed_proj_dim": 32, "_remove_final_layer_norm": True},
    ),
    "opt_post_norm": (
        "OPTForCausalLM",
        {"ffn_dim": 64, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    ),
    "bloom": ("BloomForCausalLM", {}),
    "falcon": ("FalconForCausalLM", {"multi_query": True, "parallel_attn": True}),
    "falcon_new": (
        "FalconForCausalLM",
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "falcon_sequential": ("FalconForCausalLM", {"parallel_attn": False, "alibi": True}),
    "mpt": ("MptForCausalLM", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", GROUPED),
    "mixtral": ("MixtralForCausalLM", EXPERTS),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen2_moe": ("Qwen2MoeForCausalLM", ROUTED | {"shared_expert_intermediate_size": 16}),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 8}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", ROUTED | {"head_dim": 8}),
    "gemma": ("GemmaForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", FOUR | {"query_pre_attn_scalar": 8}),
    "gemma3_text": ("Gemma3ForCausalLM", FOUR | {"query_pre_attn_scalar": 8}),
    "cohere": ("CohereForCausalLM", GROUPED),
    "cohere_qk_norm": ("CohereForCausalLM", GROUPED | {"use_qk_norm": True}),
    "cohere2": ("Cohere2ForCausalLM", FOUR),
    "olmo": ("OlmoForCausalLM", GROUPED),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "olmo3": ("Olmo3ForCausalLM", FOUR),
    "olmoe": ("OlmoeForCausalLM", GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}),
    "phi": ("PhiForCausalLM", {}),
    "phi_qk_norm": ("PhiForCausalLM", {"qk_layernorm": True}),
    "phi3": ("Phi3ForCausalLM", GROUPED),
    "stablelm": ("StableLmForCausalLM", GROUPED),
    "stablelm_parallel": (
        "StableLmForCausalLM",
        GROUPED | {"use_parallel_residual": True, "qk_layernorm": True},
    ),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED),
    "nemotron": ("NemotronForCausalLM", GROUPED | {"head_dim": 8}),
    "persimmon": ("PersimmonForCausalLM", {}),
    "granite": ("GraniteForCausalLM", GROUPED),
    "granitemoe": ("GraniteMoeForCausalLM", EXPERTS),
    "glm": ("GlmForCausalLM", GROUPED | {"head_dim": 8}),
    "glm4": ("Glm4ForCausalLM", GROUPED | {"head_dim": 8}),
    "exaone4": ("Exaone4ForCausalLM", FOUR),
    "deepseek_v2": ("DeepseekV2ForCausalLM", LATENT | {"topk_method": "greedy"}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", LATENT | {"rms_norm_eps": 1e-5}),
    "gpt_oss": ("GptOssForCausalLM", EXPERTS | FOUR),
    "ernie4_5": ("Ernie4_5ForCausalLM", GROUPED),
    "smollm3": ("SmolLM3ForCausalLM", GROUPED | {"num_hidden_layers": 4}),
    "lfm2": (
        "Lfm2ForCausalLM",
        GROUPED | {"layer_types": ["conv", "full_attention"], "block_ff_dim": 64},
    ),
    "qwen3_next": (
        "Qwen3NextForCausalLM",
        ROUTED
        | {
            "num_hidden_layers": 4,
            "head_dim": 8,
            "shared_expert_intermediate_size": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
    "biogpt": ("BioGptForCausalLM", {}),
    "mamba": ("MambaForCausalLM", SSM | {"time_step_rank": 4}),
    "mamba2": ("Mamba2ForCausalLM", SSM),
    "falcon_mamba": ("FalconMambaForCausalLM", SSM | {"time_step_rank": 4}),
    "jamba": (
        "JambaForCausalLM",
        ROUTED
        | {
            "num_hidden_layers": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "rwkv": ("RwkvForCausalLM", {"attention_hidden_size": 32, "context_length": 64}),
    "recurrent_gemma": (
        "RecurrentGemmaForCausalLM",
        {"num_key_value_heads": 1, "num_hidden_layers": 3, "lru_width": 32},
    ),
    "fastspeech2_conformer": (
        "FastSpeech2ConformerModel",
        {
            "vocab_size": 99,
            "hidden_size": 16,
            "num_mel_bins": 8,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_num_attention_heads": 2,
            "decoder_num_attention_heads": 2,
            "encoder_linear_units": 32,
            "decoder_linear_units": 32,
            "duration_predictor_channels": 16,
            "energy_predictor_channels": 16,
            "pitch_predictor_channels": 16,
            "speech_decoder_postnet_units": 16,
            "speech_decoder_postnet_layers": 2,
        },
    ),
}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("BartModel", BOTH),
    "mbart": ("MBartModel", BOTH),
    "pegasus": ("PegasusModel", BOTH),
    "marian": ("MarianModel", BOTH),
    "m2m_100": ("M2M100Model", BOTH),
    "blenderbot": ("BlenderbotModel", BOTH),
    "t5": ("T5Model", T5),
    "t5_gated": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu"}),
    "mt5": ("MT5Model", T5),
    "umt5": ("UMT5Model", T5),
    "longt5": ("LongT5Model", T5 | {"local_radius": 3}),
    "switch_transformers": (
        "SwitchTransformersModel",
        T5
        | {
            "num_experts": 4,
            "expert_capacity": 16,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
        },
    ),
}
SOUNDS: dict[str, tuple[str, dict[str, Any]]] = {
    "wav2vec2_group": ("Wav2Vec2Model", SPEECH),
    "wav2vec2_layer": ("Wav2Vec2Model", SPEECH | LAYER),
    "hubert": ("HubertModel", SPEECH),
    "hubert_layer": ("HubertModel", SPEECH | LAYER),
    "wavlm": ("WavLMModel", SPEECH | LAYER),
    "wav2vec2_conformer": ("Wav2Vec2ConformerModel", SPEECH),
    "wav2vec2_conformer_layer": ("Wav2Vec2ConformerModel", SPEECH | LAYER),
}
PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTModel", PATCHES),
    "deit": ("DeiTModel", PATCHES),
    "beit": ("BeitModel", PATCHES),
    "dinov2": ("Dinov2Model", PATCHES),
    "clip_vision": ("CLIPVisionModel", PATCHES),
    "siglip_vision": ("SiglipVisionModel", PATCHES),
    "convnext": ("ConvNextModel", CONVS),
    "convnextv2": ("ConvNextV2Model", CONVS),
    "swin": ("SwinModel", STAGES),
    "swinv2": ("Swinv2Model", STAGES),
    "segformer": (
        "SegformerForSemanticSegmentation",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [4, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
        },
    ),
    "poolformer": (
        "PoolFormerModel",
        CONVS
        | {
            "num_encoder_blocks": 2,
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "padding": [2, 1],
        },
    ),
    "levit": (
        "LevitModel",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "num_attention_heads": [2, 4],
            "key_dim": [8, 8],
            "attention_ratio": [2, 2],
            "mlp_ratio": [2, 2],
            "down_ops": [["Subsample", 8, 2, 4, 2, 2], [""]],
        },
    ),
    "mobilevit": (
        "MobileViTModel",
        {"image_size": 64, "hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8] * 6 + [32]},
    ),
    "resnet": ("ResNetModel", CONVS | {"embedding_size": 16, "layer_type": "basic"}),
    "regnet": ("RegNetModel", CONVS | {"embedding_size": 16, "groups_width": 8}),
}
OWN_SIZES = "convnext convnextv2 swin swinv2 segformer poolformer levit mobilevit resnet regnet"
OWN_SIZES += " fastspeech2_conformer funnel xlnet"  # those that name other sizes, or none


def transformers() -> Iterator[tuple[str, Build]]:
    tables = {_text: TEXTS, _pair: PAIRS, _sound: SOUNDS, _picture: PICTURES}
    for batch, table in tables.items():
        for name, (of, options) in table.items():
            yield name, lambda n=name, c=of, o=options, b=batch: (_model(n, c, o), (), b())
    yield "clip", _clip
    yield "whisper", _whisper
    yield "speech_to_text", _speech_to_text
    yield "wav2vec2_bert", _wav2vec2_bert


def _model(name: str, of: str, options: dict[str, Any]) -> nn.Module:
    import transformers

    made = getattr(transformers, of)
    sizes = {} if name in OWN_SIZES.split() else SIZES
    return made(made.config_class(**sizes | options))


def _mask(lengths: list[int]) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def _text() -> dict[str, Any]:
    mask = _mask([12, 9, 7, 4])
    ids = torch.randint(3, 99, mask.shape)
    return {"input_ids": ids * mask, "attention_mask": mask}


def _pair() -> dict[str, Any]:
    return _text() | {"decoder_input_ids": torch.randint(3, 99, (4, 7))}


def _sound() -> dict[str, Any]:
    mask = _mask([4000, 2600, 1500])
    return {"input_values": torch.randn(mask.shape) * mask, "attention_mask": mask}


def _features(bins: int) -> dict[str, Any]:
    mask = _mask([48, 32, 20])
    return {
        "input_features": torch.randn(*mask.shape, bins) * mask[..., None],
        "attention_mask": mask,
    }


def _picture() -> dict[str, Any]:
    return {"pixel_values": images()}


def _clip() -> Batch:
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(text_config=dict(SIZES), vision_config=SIZES | PATCHES, projection_dim=16)
    return CLIPModel(config), (), _text() | _picture()


def _whisper() -> Batch:
    options = BOTH | {"num_mel_bins": 8, "max_source_positions": 24, "max_target_positions": 16}
    named = {"input_features": torch.randn(4, 8, 48), "decoder_input_ids": _text()["input_ids"]}
    return _model("whisper", "WhisperModel", options), (), named


def _speech_to_text() -> Batch:
    options = BOTH | {"input_feat_per_channel": 8, "conv_channels": 16, "max_source_positions": 64}
    named = _features(8) | {"decoder_input_ids": torch.randint(3, 99, (3, 7))}
    return _model("speech_to_text", "Speech2TextModel", options), (), named


def _wav2vec2_bert() -> Batch:
    options = {"feature_projection_input_dim": 16, "mask_time_prob": 0.0, "layerdrop": 0.0}
    return _model("wav2vec2_bert", "Wav2Vec2BertModel", options), (), _features(16)


LIBRARIES = {"torchvision": torchvision, "timm": timm, "transformers": transformers}


# what examine says of them


def lines(name: str, report: Any) -> list[str]:
    """A report in a stable form: a line for each error and warning, one that counts the notes."""
    told = [(f.level, f) for f in report.findings if f.level != "note"]
    said = [f"{name}: {level} {f.name} ×{len(f.paths)} {f.paths[0]}" for level, f in told]
    notes = Counter({f.name: len(f.paths) for f in report.findings if f.level == "note"})
    counts = ", ".join(f"{note} ×{n}" for note, n in sorted(notes.items()))
    skipped = [f"{name}: skipped {each.what}: {each.why}" for each in report.skipped]
    return [*sorted(said), *sorted(skipped), f"{name}: notes {counts or 'none'}"]


def frozen() -> dict[str, list[str]]:
    """The lines of zoo.txt, by architecture."""
    found: dict[str, list[str]] = {}
    for line in FROZEN.read_text().splitlines() if FROZEN.exists() else []:
        found.setdefault(line.partition(":")[0], []).append(line)
    return found


def examined(name: str, build: Build) -> list[str]:
    """Examine one architecture, and print what was found."""
    from normkit.examining import examine

    model, inputs, named = build()
    started = time.perf_counter()
    report = examine(model, *inputs, **named)
    seconds = time.perf_counter() - started
    print(f"{name}: {len(report.norms)} norms, {seconds:.1f} s", flush=True)
    for finding in report.findings:
        values = " ".join(f"{key}={value:.4g}" for key, value in finding.values.items())
        where = f"×{len(finding.paths)} {finding.paths[0]}"
        print(f"  {finding.level} {finding.name} {where} {values}", flush=True)
    for each in report.skipped:
        print(f"  skipped {each.what}: {each.why}", flush=True)
    return lines(name, report)


def main(arguments: list[str]) -> int:
    """Examine those named, or all; compare with zoo.txt, or write it."""
    torch.set_num_threads(1)
    write, names = "--write" in arguments, [a for a in arguments if not a.startswith("-")]
    before, now = frozen(), {}
    for name, build in architectures():
        if not names or name in names:
            now[name] = examined(name, build)
    if write:
        kept = {**before, **now} if names else now
        FROZEN.write_text("".join(f"{line}\n" for each in kept.values() for line in each))
        return 0
    changed = [name for name, said in now.items() if said != before.get(name)]
    for name in changed:
        print(*(f"- {line}" for line in before.get(name, []) if line not in now[name]), sep="\n")
        print(*(f"+ {line}" for line in now[name] if line not in before.get(name, [])), sep="\n")
    print(f"{len(now)} architectures, {len(changed)} changed")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
