"""Layer normalisation, and the mistakes that all norms with a mean and a variance share."""

PREFIX = "ln"  # begins the labels of its mistakes
EXPLAINED = "layer_norm"  # the page that holds these labels
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_layer_norm": ("layer_norm", "LayerNorm", "PlainLayerNorm"),
    "mistakes_layer_norm_backward": (
        *("layer_norm_backward", "layer_norm_backward_staged"),
        *("layer_norm_invariance", "unchanged"),
    ),
}
