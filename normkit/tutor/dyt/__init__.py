"""DyT, Derf and weight normalisation, which measure no input."""

PREFIX = "dyt"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_dyt": ("dyt", "derf", "dyt_backward", "derf_backward"),
    "mistakes_dyt_layer": (
        *("DyT", "Derf", "dyt_alpha_init"),
        *("replace_norms", "replace_norms_by_path"),
    ),
    "mistakes_weight_norm": ("weight_norm", "weight_norm_backward"),
}
