"""Batch normalisation, in training and at inference."""

PREFIX = "bn"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_batch_norm": ("batch_norm", "batch_norm_training", "batch_norm_inference"),
    "mistakes_batch_norm_layer": (
        *("BatchNorm", "PlainBatchNorm", "fold_batch_norm"),
        *("batch_norm_backward", "batch_norm_backward_staged"),
    ),
}
