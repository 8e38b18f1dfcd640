"""Group normalisation, and with it instance normalisation: steps, identities and their mistakes.

The steps are those that all norms with a mean and a variance share, on channels that are split:
x is (N, groups, channels of a group, positions), gamma and beta line up with it.
"""

from collections.abc import Callable

import numpy as np

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run
from normkit.mistakes.normalise import BACKWARD, FORWARD


@chain
class GROUPS:
    def groups(num_groups):
        return num_groups

    def members(channels, groups):
        return np.arange(channels).reshape(groups, -1)

    def x(images, members):
        return images[:, members]

    def gamma(weight, members, x):
        return _spread(weight[members], x)

    def axis(x):
        return tuple(range(2, x.ndim))


@chain
class SHIFT:
    def beta(bias, members, x):
        return _spread(bias[members], x)


@chain
class JOINED:
    def joined(y, members):
        return _joined(y, members)


@chain
class SHARED:
    def dy(gradient, members):
        return gradient[:, members]

    def tokens(x):
        return (0, *range(3, x.ndim))


@chain
class PREDICTIONS:
    def layer_norm_of_examples():
        return 1

    def layer_norm_of_positions():
        return 0

    def instance_norm():
        return 6

    def batch_norm():
        return 0

    def batch_norm_of_single_examples():
        return 6

    def pairs_of_channels():
        return 3

    def every_other_channel():
        return 0


@chain
class SEARCH:
    def channels(x):
        return x.shape[1]

    def candidates(channels):
        return [number for number in range(1, channels + 1) if channels % number == 0]

    def alike():
        return np.allclose

    def found(norm, group_norm, x, candidates, alike):
        return next((n for n in candidates if alike(group_norm(x, n), norm(x))), 0)

    def number(found):
        return found


@chain
class INDEPENDENCE:
    def batch_norm_training():
        return False

    def batch_norm_inference():
        return True

    def layer_norm():
        return True

    def instance_norm():
        return True

    def group_norm():
        return True


@chain
class EXPERIMENT:
    def independent(norm, x):
        return all(np.allclose(norm(x[i : i + 1])[0], norm(x)[i]) for i in range(len(x)))


def _spread(parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One number per channel, split as the channels are, with an axis for each of positions."""
    return parameter.reshape(*parameter.shape, *(1 for _ in x.shape[3:]))


def _joined(split: np.ndarray, members: np.ndarray, axes: tuple = (1, 0)) -> np.ndarray:
    """The array with the groups and their members as one axis again, the channels in order.

    axes: where the groups may be, the likely place first.
    """
    axis = next((i for i in axes if split.shape[i : i + 2] == members.shape), None)
    if axis is None:
        return split
    shape = *split.shape[:axis], members.size, *split.shape[axis + 2 :]
    return np.take(split.reshape(shape), np.argsort(members, axis=None), axis)


def _of_columns(x: np.ndarray, groups: int) -> np.ndarray:
    """The means of the columns of each example, reshaped to (-1, groups), in their places."""
    columns = x.reshape(len(x), -1, groups)
    return (columns.mean(axis=1, keepdims=True) + np.zeros_like(columns)).reshape(x.shape)


def _group_norm(steps: Steps) -> Callable:
    def group_norm(x, num_groups, gamma, beta, eps=1e-5):
        given = dict(images=x, channels=x.shape[1], num_groups=num_groups, weight=gamma)
        return run(steps, xp=np, **given, bias=beta, eps=eps)["joined"]

    return group_norm


def _group_norm_backward(steps: Steps) -> Callable:
    def group_norm_backward(dy, x, num_groups, gamma, eps=1e-5):
        given = dict(images=x, channels=x.shape[1], num_groups=num_groups, weight=gamma)
        done = run(steps, xp=np, **given, gradient=dy, eps=eps)
        places = {"dx": (1, 0), "dgamma": (0, 1), "dbeta": (0, 1)}
        return tuple(_joined(done[name], done["members"], at) for name, at in places.items())

    return group_norm_backward


def _identities(steps: Steps) -> tuple[dict[str, int], Callable]:
    def groups_like(norm, group_norm, x):
        search = {name: steps[name] for name in SEARCH}
        return run(search, norm=norm, group_norm=group_norm, x=x)["number"]

    return {name: steps[name]() for name in PREDICTIONS}, groups_like


def _batch(steps: Steps) -> tuple[dict[str, bool], Callable]:
    return {name: steps[name]() for name in INDEPENDENCE}, steps["independent"]


def _splitting(own: Steps, shared: Steps) -> Steps:
    """The shared steps after those that split the channels, which replace some of them."""
    return GROUPS | own | shared | GROUPS | own


ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"group_instance_norm#{place}", "gn", tuple(contains))
    for name, steps, assemble, place, *contains in (
        (
            "group_norm",
            _splitting(SHIFT, FORWARD) | JOINED,
            _group_norm,
            "gn-formula",
            "normalise",
        ),
        (
            "group_norm_backward",
            _splitting(SHARED, BACKWARD),
            _group_norm_backward,
            "gn-backward",
            "group_norm",
            "normalise_backward",
        ),
        ("group_norm_identities", PREDICTIONS | SEARCH, _identities, "gn-identities"),
        ("group_norm_batch", INDEPENDENCE | EXPERIMENT, _batch, "gn-batch"),
    )
}


# --- Which channels, which axes ---------------------------------------------------------------


@of("group_norm")
class group_size_for_number:
    message = N_(
        "num_groups is taken for the number of channels in a group. It counts the groups: 12 "
        "channels and num_groups=3 make 3 groups of 4. (Where C is G² the two are the same, and "
        "nobody notices.)"
    )
    met = N_(
        "A notebook gives the sizes 1 and C for instance and layer normalisation, rightly; "
        "PyTorch takes the number of groups."
    )

    def groups(channels, num_groups):
        return channels // num_groups


@of("group_norm")
class groups_interleaved:
    message = N_(
        "A group takes every G-th channel: 0, 2, 4 and 1, 3, 5. Groups are of neighbours, 0, 1, 2 "
        "and 3, 4, 5. Split the channel axis as (G, C // G), in this order, and average over the "
        "second part."
    )

    def members(channels, groups):
        return np.arange(channels).reshape(-1, groups).T


@of("group_norm")
class groups_as_columns:
    message = N_(
        "x is reshaped to (N, -1, G) and averaged over axis 1: a group is every G-th number of an "
        "example in memory, whatever its channel. The numbers of a group follow each other: "
        "reshape to (N, G, -1), and average over the last axis."
    )

    def mean(x, groups):
        return _of_columns(x, groups)

    def var(x, mean, groups):
        return _of_columns((x - mean) ** 2, groups)


@of("group_norm")
class remainder_ignored:
    message = N_(
        "With a num_groups that does not divide the number of channels, no error is raised, and "
        "channels are left out or groups end in the middle of a channel (reshape(N, G, -1) does "
        "that). Raise ValueError if C % num_groups is not 0."
    )

    def members(channels, groups):
        size = channels // groups
        return np.arange(groups * size).reshape(groups, size)


@of("group_norm")
class one_group:
    message = N_(
        "num_groups has no effect: all channels of an example are one group. That is layer "
        "normalisation over (C, H, W), right for num_groups=1 only. Split the channels into "
        "num_groups parts first."
    )

    def groups():
        return 1


@of("group_norm")
class one_channel_groups:
    message = N_(
        "num_groups has no effect: each channel has its own mean and variance. That is instance "
        "normalisation, right for num_groups = C only. The channels of a group share theirs."
    )

    def groups(channels):
        return channels


@of("group_norm")
class group_over_batch:
    message = N_(
        "The mean and the variance of a group run over the batch too. Each example has its own: "
        "otherwise its output depends on its neighbours in the batch, which is what group "
        "normalisation is there to avoid."
    )

    def axis(x):
        return (0, *range(2, x.ndim))


@of("group_norm")
class batch_norm_instead:
    message = N_(
        "Each channel is normalised over the whole batch: that is batch normalisation. Here each "
        "example is treated by itself, and the channels of a group together. With a batch of one "
        "and num_groups = C the two are the same."
    )

    def groups(channels):
        return channels

    def axis(x):
        return (0, *range(3, x.ndim))


@of("group_norm")
class layer_norm_of_positions:
    message = N_(
        "Each position is normalised over all its channels, as layer normalisation does with "
        "tokens. A group runs over the positions as well: even num_groups=1 is layer "
        "normalisation over (C, H, W), not over C."
    )

    def groups():
        return 1

    def axis():
        return 2


@of("group_norm")
class positions_forgotten:
    message = N_(
        "The mean and the variance run over the channels of a group, at each position by itself. "
        "They run over the positions as well: an example has num_groups means, whatever H and W "
        "are."
    )

    def axis():
        return 2


@of("group_norm")
class last_axis_alone:
    message = N_(
        "The mean and the variance run over the last axis alone, in an image one line of pixels. "
        "A group is all of its channels at all positions: after the split into (N, G, C // G, H, "
        "W), average over the last three axes."
    )

    def axis():
        return -1


@of("group_norm")
class images_only:
    message = N_(
        "Only x of shape (N, C, H, W) is accepted. The channels are axis 1 whatever follows: "
        "nothing (N, C), a length (N, C, L) or a volume. Write *rest for the other axes, or "
        "reshape(N, G, -1)."
    )

    def x(images, members):
        examples, _, height, width = images.shape
        return images[:, members].reshape(examples, *members.shape, height, width)


@of("group_norm")
class variance_within_channels:
    message = N_(
        "The variance of a group is the average of the variances of its channels. It leaves out "
        "how far the means of the channels lie apart, and the output has a variance above 1. "
        "Subtract the mean of the group, then average all squares."
    )

    def var(xp, x):
        within = xp.var(x, axis=tuple(range(3, x.ndim)), keepdims=True)
        return xp.mean(within, axis=2, keepdims=True)


@of("group_norm")
class gamma_per_group:
    message = N_(
        "gamma and beta are indexed by the group: the first num_groups numbers are used, one for "
        "all channels of a group. Each channel has its own; only the mean and the variance are "
        "shared."
    )

    def gamma(weight, members, x):
        return _spread(weight[np.indices(members.shape)[0]], x)

    def beta(bias, members, x):
        return _spread(bias[np.indices(members.shape)[0]], x)


@of("group_norm")
class gamma_on_last_axis:
    message = N_(
        "gamma and beta are lined up with the last axis, a position. That fails unless W = C, and "
        "then it is silently wrong. They belong to the channels, axis 1: reshape them to (C, 1, "
        "1)."
    )

    def scaled(xhat):
        return xhat

    def y(scaled):
        return scaled

    def joined(y, members, weight, bias):
        return weight * _joined(y, members) + bias


# --- The backward pass ------------------------------------------------------------------------


@of("group_norm_backward")
class gamma_outside_group_means:
    message = N_(
        "In dx, gamma multiplies the whole bracket. That is right where one gamma serves all "
        "that share a mean, in batch and instance normalisation. The channels of a group differ "
        "in gamma: it belongs inside the means, dxhat = dy * gamma."
    )

    def dxhat(dy):
        return dy

    def dx(gamma, dxhat, mean_term, xhat_term, root):
        return gamma * (dxhat - mean_term - xhat_term) / root


@of("group_norm_backward")
class means_of_batch_norm:
    message = N_(
        "The two means in dx run over the batch and the positions of a channel, as in batch "
        "normalisation. They run over what shares a mean in the forward pass: the channels and "
        "positions of one group of one example."
    )

    def mean_term(xp, dxhat):
        return xp.mean(dxhat, axis=(0, *range(3, dxhat.ndim)), keepdims=True)

    def xhat_term(xp, dxhat, xhat):
        channel = (0, *range(3, xhat.ndim))
        return xhat * xp.mean(dxhat * xhat, axis=channel, keepdims=True)


@of("group_norm_backward")
class gradients_over_examples:
    message = N_(
        "dgamma and dbeta are summed over the examples only, and have the shape (C, H, W). All "
        "positions share the gamma of their channel: sum over every axis but axis 1."
    )

    def tokens():
        return 0


@of("group_norm_backward")
class gradients_over_positions:
    message = N_(
        "dgamma and dbeta are summed over the positions only: every example has its own row. All "
        "examples share one gamma: sum over axis 0 too."
    )

    def tokens(x):
        return tuple(range(3, x.ndim))


@of("group_norm_backward")
class gradients_per_group:
    message = N_(
        "dgamma and dbeta have one number per group: they are summed over the channels of a "
        "group. gamma and beta have one number per channel, and so have their gradients."
    )

    def tokens(x):
        return (0, *range(2, x.ndim))


# --- What it is the same as -------------------------------------------------------------------


@of("group_norm_identities")
class sizes_predicted:
    message = N_(
        "Your predictions are numbers of channels in a group. num_groups counts the groups: one "
        "group of all 6 channels is layer normalisation over (C, H, W), 6 groups of one channel "
        "are instance normalisation."
    )

    def layer_norm_of_examples():
        return 6

    def instance_norm():
        return 1

    def batch_norm_of_single_examples():
        return 1

    def pairs_of_channels():
        return 2


@of("group_norm_identities")
class positions_as_one_group:
    message = N_(
        "layer_norm_of_positions: 0, no number of groups. With one group the mean runs over the "
        "channels and the positions; in a Transformer, layer normalisation takes each position "
        "by itself. Without positions, for (N, C), they are the same."
    )

    def layer_norm_of_positions():
        return 1


@of("group_norm_identities")
class batch_norm_as_instance_norm:
    message = N_(
        "batch_norm: 0, no number of groups. It averages over the examples of the batch, which "
        "group normalisation never does. It is instance normalisation only where the batch is a "
        "single example."
    )

    def batch_norm():
        return 6


@of("group_norm_identities")
class single_example_denied:
    message = N_(
        "batch_norm_of_single_examples: 6. In a batch of one, the mean of a channel runs over the "
        "positions of one example, as in instance normalisation, the case num_groups = C."
    )

    def batch_norm_of_single_examples():
        return 0


@of("group_norm_identities")
class every_other_accepted:
    message = N_(
        "every_other_channel: 0. There are two groups, but of channels 0, 2, 4 and 1, 3, 5. Group "
        "normalisation splits the channels into neighbours, 0, 1, 2 and 3, 4, 5."
    )

    def every_other_channel():
        return 2


@of("group_norm_identities")
class examples_by_size:
    message = N_(
        "layer_norm_of_examples: 6 groups would be one channel each, instance normalisation. Here "
        "all 6 channels share one mean. num_groups counts the groups, not the channels in one."
    )

    def layer_norm_of_examples():
        return 6


@of("group_norm_identities")
class positions_as_channels:
    message = N_(
        "layer_norm_of_positions: 6 groups would be one channel each, instance normalisation. Here "
        "all channels share a mean, but each position has its own. Look whether blocks of whole "
        "channels can do that."
    )

    def layer_norm_of_positions():
        return 6


@of("group_norm_identities")
class instance_norm_as_one_group:
    message = N_(
        "instance_norm: 1 would be one group of all channels, layer normalisation over (C, H, W). "
        "Here each channel is a group by itself. num_groups counts the groups, not the channels in "
        "one."
    )

    def instance_norm():
        return 1


@of("group_norm_identities")
class single_example_as_one_group:
    message = N_(
        "batch_norm_of_single_examples: 1 would be one group of all channels. The batch is one "
        "example, but each of its channels has a mean of its own. num_groups counts these groups, "
        "neither the examples nor the channels in one."
    )

    def batch_norm_of_single_examples():
        return 1


@of("group_norm_identities")
class pairs_by_size:
    message = N_(
        "pairs_of_channels: 2 groups would be of 3 channels each. 2 is the number of channels in a "
        "pair; num_groups counts the pairs."
    )

    def pairs_of_channels():
        return 2


@of("group_norm_identities")
class every_other_by_size:
    message = N_(
        "every_other_channel: 3 groups would be the pairs 0 and 1, 2 and 3, 4 and 5. Here channels "
        "0, 2 and 4 share a mean. Groups are of neighbours: one that holds 0 and 2 holds 1 too."
    )

    def every_other_channel():
        return 3


@of("group_norm_identities")
class extremes_tried:
    message = N_(
        "groups_like tries only one group and C groups. Between them lie the other divisors of C: "
        "2 and 3 for C = 6."
    )

    def candidates(channels):
        return [1, channels]


@of("group_norm_identities")
class last_number_missed:
    message = N_(
        "groups_like never tries num_groups = C: range(1, C) ends at C - 1. So it does not find "
        "instance normalisation. Write range(1, C + 1)."
    )

    def candidates(channels):
        return [number for number in range(1, channels) if channels % number == 0]


@of("group_norm_identities")
class every_number_tried:
    message = N_(
        "groups_like tries numbers that do not divide C, and group_norm refuses them: 6 channels "
        "do not split into 4 groups. Try the divisors of C only."
    )

    def candidates(channels):
        return list(range(1, channels + 1))


@of("group_norm_identities")
class channels_of_last_axis:
    message = N_(
        "groups_like takes the length of the last axis for the number of channels. In (N, C, H, "
        "W) the channels are axis 1: x.shape[1]."
    )

    def channels(x):
        return x.shape[-1]


@of("group_norm_identities")
class groups_compared_exactly:
    message = N_(
        "groups_like compares with ==. Two ways to compute the same number differ in their last "
        "digits, so it finds nothing. Compare up to rounding: np.allclose(a, b)."
    )

    def alike():
        return np.array_equal


@of("group_norm_identities")
class size_returned:
    message = N_(
        "groups_like returns the number of channels in a group, C divided by the number of "
        "groups. The question is what to pass as num_groups: the number of groups."
    )

    def number(channels, found):
        return channels // found if found else 0


# --- Why the batch does not matter ------------------------------------------------------------


@of("group_norm_batch")
class training_declared_independent:
    message = N_(
        "batch_norm_training: False. In training, the mean and the variance of a channel are "
        "those of the batch, so every other example moves them, and with them the output."
    )

    def batch_norm_training():
        return True


@of("group_norm_batch")
class inference_declared_dependent:
    message = N_(
        "batch_norm_inference: True. In inference, the mean and the variance are the running "
        "ones, fixed numbers: each example is scaled and shifted by itself."
    )

    def batch_norm_inference():
        return False


@of("group_norm_batch")
class layer_norm_declared_dependent:
    message = N_(
        "layer_norm: True. Its mean and variance are those of one example (or of one token), "
        "whatever else is in the batch."
    )

    def layer_norm():
        return False


@of("group_norm_batch")
class instance_norm_declared_dependent:
    message = N_(
        "instance_norm: True. Like batch normalisation it treats each channel by itself, but the "
        "mean and the variance run over the positions of one example only."
    )

    def instance_norm():
        return False


@of("group_norm_batch")
class group_norm_declared_dependent:
    message = N_(
        "group_norm: True. A group is a group of channels, not of examples: the mean and the "
        "variance are those of some channels of one example."
    )

    def group_norm():
        return False


@of("group_norm_batch")
class first_example_tested:
    message = N_(
        "independent tests the first example only. Another one may depend on its neighbours: a "
        "running mean over the examples up to this one does not touch the first. Test every "
        "example."
    )

    def independent(norm, x):
        return np.allclose(norm(x[:1])[0], norm(x)[0])


@of("group_norm_batch")
class last_example_changed:
    message = N_(
        "independent changes the last example only. The output of an example may depend on any "
        "other one. Change all the others, or leave them out, for every example."
    )

    def independent(norm, x):
        changed = np.concatenate([x[:-1], x[-1:] + 1])
        return np.allclose(norm(changed)[:-1], norm(x)[:-1])


@of("group_norm_batch")
class examples_permuted:
    message = N_(
        "independent changes the order of the examples. The mean of a batch does not depend on "
        "it, so batch normalisation passes this test too. The other examples must become others, "
        "or be left out."
    )

    def independent(norm, x):
        return np.allclose(norm(x[::-1]), norm(x)[::-1])


@of("group_norm_batch")
class examples_repeated:
    message = N_(
        "independent repeats the batch. Its mean and variance stay what they were, so batch "
        "normalisation passes this test too. The other examples must become others, or be left "
        "out."
    )

    def independent(norm, x):
        return np.allclose(norm(np.concatenate([x, x]))[: len(x)], norm(x))


@of("group_norm_batch")
class all_examples_changed:
    message = N_(
        "independent changes all examples alike and compares their outputs: that asks whether "
        "the norm sees the change. The example that is compared must stay; the others change."
    )

    def independent(norm, x):
        return np.allclose(norm(x + 1), norm(x))


@of("group_norm_batch")
class compared_with_all:
    message = N_(
        "independent compares the output of one example with the outputs of all: NumPy repeats "
        "the one for each of the others. Compare it with the output of the same example in the "
        "batch."
    )

    def independent(norm, x):
        return np.allclose(norm(x[:1]), norm(x))


@of("group_norm_batch")
class examples_compared_exactly:
    message = N_(
        "independent compares with ==. The outputs are equal as real numbers, but rounding makes "
        "their last digits differ, so it answers False where it should say True. Compare up to "
        "rounding: np.allclose(a, b)."
    )

    def independent(norm, x):
        return all(np.array_equal(norm(x[i : i + 1])[0], norm(x)[i]) for i in range(len(x)))


@of("group_norm_batch")
class always_independent:
    message = N_(
        "independent says True for every norm, even for batch normalisation in training. Compare "
        "the output of an example in the batch with its output when the others are left out or "
        "changed, and return the result of this comparison."
    )

    def independent(norm, x):
        return True


@of("group_norm_batch")
class answer_inverted:
    message = N_(
        "independent answers the opposite question: True where the other examples matter. It "
        "should be True where the output of an example stays the same without them."
    )

    def independent(norm, x):
        return not all(np.allclose(norm(x[i : i + 1])[0], norm(x)[i]) for i in range(len(x)))
