"""Group normalisation, and with it instance normalisation."""

PREFIX = "gn"  # begins the labels of its mistakes
PAGES = {  # the pages of mistakes, and the programs whose entries they show
    "mistakes_group_instance_norm": (
        *("group_norm", "group_norm_backward", "group_norm_backward_staged"),
    ),
    "mistakes_group_experiments": (
        *("groups_like", "group_norm_identities", "independent", "group_norm_batch"),
    ),
}
