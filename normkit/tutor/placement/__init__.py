"""Where a Transformer normalises: blocks, a model of them, DeepNorm, QK-norm, gradients."""

PREFIX = "placement"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_placement": (
        "post_block",
        "pre_block",
        "output_block",
        "peri_block",
        "deep_block",
        "Stack",
        "qk_attention",
    ),
    "mistakes_deepnorm": ("deepnorm_constants", "deepnorm_init", "gradient_norm"),
}
