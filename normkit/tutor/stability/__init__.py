"""The variance without loss of digits: in two passes, value by value, in pieces."""

PREFIX = "variance"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_stability": (
        "two_pass",
        "half_precision",
        "first_failure",
        "variance_predictions",
    ),
    "mistakes_stability_welford_and_merging": ("welford", "merge"),
}
