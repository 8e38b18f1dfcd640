"""Conditional norms: FiLM, AdaLN, AdaLN-Zero, conditional batch normalisation, AdaIN."""

PREFIX = "conditional"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_conditional": (
        "film",
        "adaptive_layer_norm",
        "conditional_batch_norm",
        "adaptive_instance_norm",
    ),
    "mistakes_adaln_zero": ("adaln_zero", "adaln_zero_backward", "AdaLNZero"),
}
