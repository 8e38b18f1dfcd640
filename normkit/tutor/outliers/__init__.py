"""Large values: 8-bit integers, QK-norm, soft-capping, QK-clip, z-loss."""

PREFIX = "outliers"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_outliers": ("outlier_predictions", "to_int8", "mixed_product", "migrate"),
    "mistakes_large_logits": (
        "qk_logits",
        "capped_weights",
        "soft_cap_backward",
        "qk_clip",
    ),
    "mistakes_z_loss": ("loss_with_z", "loss_with_z_backward"),
}
