"""RMSNorm, whole and partial, its gradients, what it makes of layer normalisation, folding."""

PREFIX = "rms"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_rms_norm": (
        "rms_norm",
        "partial_rms_norm",
        "half_rms_norm",
        "layer_norm_from_rms_norm",
    ),
    "mistakes_rms_norm_gradients_and_folds": (
        "rms_norm_backward",
        "rms_norm_backward_staged",
        "partial_rms_norm_backward",
        "fold_affine",
        "fold_centring",
    ),
}
