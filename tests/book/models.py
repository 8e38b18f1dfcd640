"""The table of models against their code: small models with random weights, measured.

python -m tests.book.models [name …]

builds each model of book/data/models.csv that torchvision, timm or transformers can build, examines
it, and compares kind, place, ε and order of the multiplication with the row. What transformers sets
by default may differ from what a checkpoint has: an ε agrees if the full wording names it.
"""

import csv
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from normkit.examining import Norm, examine
from tests.normkit.examining import zoo

TABLE = Path("book/data/models.csv")
# a row, and the architectures of tests/normkit/examining/zoo.py or of SMALL that show it
SHOWN_BY = {
    "BERT": "bert",
    "GPT-2": "gpt2",
    "T5 (1.0)": "t5",
    "T5 v1.1": "t5_gated",
    "Llama 2": "llama",
    "Llama 3": "llama",
    "Llama 4": "llama4_text",
    "Mistral 7B": "mistral",
    "Mixtral 8x7B": "mixtral",
    "Qwen2": "qwen2",
    "Qwen2.5": "qwen2",
    "Qwen3": "qwen3",
    "Qwen3-Next": "qwen3_next",
    "Gemma 1": "gemma",
    "Gemma 2": "gemma2",
    "Gemma 3": "gemma3_text",
    "Gemma 3n": "gemma3n_text",
    "Gemma 4": "gemma4_text",
    "DeepSeek-V2": "deepseek_v2",
    "DeepSeek-V3": "deepseek_v3_own",
    "DeepSeek-V4": "deepseek_v4",
    "GLM-4-9B (2024)": "glm",
    "GLM-4-0414 (9B, 32B)": "glm4",
    "GLM-4.5": "glm4_moe",
    "InternLM3": "llama",
    "Yi": "llama",
    "OLMo 1": "olmo",
    "OLMo 2": "olmo2",
    "OLMo 3": "olmo3",
    "gpt-oss": "gpt_oss",
    "Falcon 7B": "falcon",
    "Falcon 40B/180B": "falcon_new",
    "Phi-3": "phi3",
    "Command R (Cohere)": "cohere",
    "Kimi K2": "deepseek_v3_own",
    "MiniMax-Text-01": "minimax",
    "MiniMax-M2": "minimax_m2",
    "DBRX": "dbrx",
    "GPT-J 6B": "gptj",
    "GPT-NeoX-20B": "gpt_neox",
    "MPT": "mpt",
    "BLOOM": "bloom",
    "OPT": "opt opt_post_norm",
    "Persimmon-8B": "persimmon",
    "Nemotron (HF nemotron)": "nemotron",
    "StarCoder2": "starcoder2",
    "EXAONE 4": "exaone4",
    "Apertus": "apertus",
    "ModernBERT": "modernbert",
    "ViT": "vit vit_b_16",
    "MLP-Mixer": "mixer_s32_224",
    "DINOv2": "dinov2",
    "Swin v1": "swin swin_t",
    "Swin v2": "swinv2 swin_v2_t",
    "ConvNeXt": "convnext convnext_tiny",
    "ConvNeXt V2": "convnextv2",
    "ResNet-50": "resnet50",
    "EfficientNet": "efficientnet_b0",
    "CLIP": "clip",
    "Whisper": "whisper",
    "Mamba": "mamba",
    "Mamba-2": "mamba2",
}
MORE = {
    "llama4_text": (
        "Llama4ForCausalLM",
        zoo.EXPERTS | {"head_dim": 8, "intermediate_size_mlp": 64, "use_qk_norm": True},
    ),
    "gemma3n_text": (
        "Gemma3nForCausalLM",
        zoo.FOUR
        | {
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 99,
            "laurel_rank": 8,
            "num_kv_shared_layers": 0,
            "activation_sparsity_pattern": [0.0] * 4,
        },
    ),
    "gemma4_text": (
        "Gemma4ForCausalLM",
        zoo.FOUR
        | {
            "global_head_dim": 8,
            "hidden_size_per_layer_input": 0,
            "num_kv_shared_layers": 0,
            "num_global_key_value_heads": 2,
        },
    ),
    "deepseek_v4": (
        "DeepseekV4ForCausalLM",
        {
            "head_dim": 16,
            "num_key_value_heads": 1,
            "q_lora_rank": 16,
            "o_lora_rank": 16,
            "o_groups": 2,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "layer_types": ["sliding_attention"] * 2,
            "mlp_layer_types": ["moe"] * 2,
            "sliding_window": 8,
        },
    ),
    "glm4_moe": (
        "Glm4MoeForCausalLM",
        zoo.GROUPED
        | {
            "head_dim": 8,
            "use_qk_norm": True,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "first_k_dense_replace": 1,
        },
    ),
    "minimax": ("MiniMaxForCausalLM", zoo.EXPERTS | {"head_dim": 8, "block_size": 4}),
    "minimax_m2": (
        "MiniMaxM2ForCausalLM",
        zoo.EXPERTS
        | {"head_dim": 8, "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
    ),
    "apertus": ("ApertusForCausalLM", zoo.GROUPED),
    "deepseek_v3_own": ("DeepseekV3ForCausalLM", zoo.LATENT),  # the zoo's has an ε of its own
    "dbrx": (
        "DbrxForCausalLM",
        {
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
}
# models that run on the classes of others, whose default ε is not theirs
BORROWED = {"Llama 3", "Qwen2.5", "InternLM3", "Yi", "Kimi K2"}
KINDS = {"LayerNorm": "layer", "RMSNorm": "rms", "BatchNorm": "batch", "GroupNorm": "group"}
# the places where norms of a block stand, as examine names them
PLACES = {"Pre": {"pre"}, "Post": {"post"}, "branch end": {"branch end"}}
PLACES |= {"Peri": {"pre", "branch end"}, "parallel": {"pre"}, "–": set()}
NUMBER = re.compile(r"\d(?:\.\d+)?e-\d+")


def rows() -> list[dict[str, str]]:
    """The table, a dictionary a row; an empty cell was not verified."""
    with TABLE.open(encoding="utf8", newline="") as file:
        return list(csv.DictReader(file))


def several(cell: str) -> list[str]:
    """The values of a short cell, the first of them the main one."""
    return cell.split(", ") if cell else []


def builds() -> dict[str, zoo.Build]:
    """How each architecture is built that can be; the same at every call."""
    found = dict(zoo.architectures())
    if importlib.util.find_spec("transformers") is not None:
        for name, (of, options) in MORE.items():
            found[name] = lambda n=name, c=of, o=options: zoo._seeded(  # type: ignore
                lambda: (zoo._model(n, c, o), (), zoo._text())
            )
    return found


def order(layer: nn.Module, eps: float) -> str | None:
    """When a root mean square norm multiplies by its weight: measured on bfloat16.

    Returns "cast first", "float32", or None where it is neither, or there is no weight.
    """
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 1:
        return None
    torch.manual_seed(0)
    layer = layer.to(torch.bfloat16)
    drawn = (torch.randn(len(weight)) / 3 + 1).to(torch.bfloat16)
    layer.weight.data = drawn  # type: ignore[union-attr]  # a tensor, as was looked at above
    x = torch.randn(512, len(weight), dtype=torch.bfloat16)
    with torch.no_grad():
        given = layer(x).float()
    wide = x.float()
    wide = wide * (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    found = {}
    for shift in (0, 1):  # a weight may be stored around 0
        scale = drawn.float() + shift
        found["float32", shift] = (wide * scale).bfloat16()
        found["cast first", shift] = wide.bfloat16() * (drawn + shift)
    same = {key: (given == value.float()).float().mean().item() for key, value in found.items()}
    best = max(same, key=lambda key: same[key])
    return best[0] if same[best] > 0.99 else None


def measured(build: zoo.Build) -> tuple[list[Norm], set[str]]:
    """What examine says of the norms of a model, and the orders that are measured."""
    model, inputs, named = build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        norms = examine(model, *inputs, **named).norms
    orders = {
        order(model.get_submodule(norm.path), norm.eps)
        for norm in norms
        if norm.kind == "rms" and norm.eps and norm.path and norm.place != "inside"
    }
    return norms, {found for found in orders if found}


def differences(row: dict[str, str], norms: list[Norm], orders: set[str]) -> Iterator[str]:
    """What is measured otherwise than a row says; what cannot be told is no difference."""
    norms = [norm for norm in norms if norm.eps]  # else its formula is none of a norm's
    around = [norm for norm in norms if norm.place not in ("inside", None)] or norms
    kinds = {KINDS[value] for value in several(row["norm"]) if value in KINDS}
    if not {norm.kind for norm in around} & kinds:
        yield f"kind {sorted({str(norm.kind) for norm in around})}, not {row['norm']}"
    places = {norm.place for norm in norms} & {"pre", "post", "branch end"}
    if places and row["place"] != "–" and places not in map(PLACES.get, several(row["place"])):
        yield f"place {sorted(map(str, places))}, not {row['place']}"
    named = [float(number) for number in NUMBER.findall(f"{row['eps']} {row['eps_full']}")]
    for eps in sorted({norm.eps for norm in around if norm.eps}):
        if row["model"] not in BORROWED and not any(abs(eps / n - 1) < 0.02 for n in named):
            yield f"eps {eps:.3g}, not {row['eps']}"
    told = set(several(row["multiply"])) - {"–"}
    if orders and told and not orders & told:
        yield f"multiplies {sorted(orders)}, not {row['multiply']}"


def main(names: list[str]) -> int:
    """Compare the rows named, or all; print what was measured, and count."""
    absent = [name for name in zoo.LIBRARIES if importlib.util.find_spec(name) is None]
    for name in absent:
        print(f"{name} is not installed: its models are left out (make models-zoo installs it)")
    torch.set_num_threads(1)
    known, counts = builds(), {"agree": 0, "differ": 0}
    for row in rows():
        if names and row["model"] not in names:
            continue
        for name in SHOWN_BY.get(row["model"], "").split():
            if name not in known:
                continue
            norms, orders = measured(known[name])
            wrong = list(differences(row, norms, orders))
            counts["differ" if wrong else "agree"] += 1
            told = "; ".join(wrong) or "agrees"
            print(f"{row['model']} ({name}): {told}", flush=True)
    print(f"{counts['agree']} agree, {counts['differ']} differ, of {len(rows())} rows")
    return bool(counts["differ"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
