"""Finding bugs: programs to mend, names for their faults, tests for them."""

PREFIX = "test"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_find_the_bug": ("fault_names", "program_test"),
    "mistakes_tests_of_one_program": (
        *("test_layer_norm", "test_batch_norm", "test_rms_norm"),
        *("test_running_batch_norm", "test_group_norm", "test_batch_norm_layer"),
        *("test_layer_norm_layer", "test_post_block", "test_fold_affine"),
        "test_deepnorm_constants",
    ),
}
HIDDEN = ("fault_names",)  # not on that page: they would give the right names away
OBSERVING = "changing", "seeing", "trying"  # modules that observe answers, beside tasks
