"""Group normalisation: right answers of any style pass, wrong ones of students are named."""

import numpy as np
import pytest
import torch

import normkit
from normkit.mistakes import combine, mistakes_of
from normkit.tasks import TASKS, judge, observe
from normkit.tasks.group_instance_norm import BATCHED, NORMS


def named(answer, task, seed=5):
    return [mistake.name for mistake in judge(observe(answer, task, seed), task, seed).mistakes]


def passes(answer, task):
    for seed in range(3):
        verdict = judge(observe(answer, task, seed), task, seed)
        assert verdict.passed, verdict.explain()


def spread(parameter, x):
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


def over(x, axis, eps):
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)


def check(x, num_groups):
    if x.shape[1] % num_groups:
        raise ValueError("C % G")


# --- Right ------------------------------------------------------------------------------------


def reshape(x, num_groups, gamma, beta, eps):
    examples, channels, *rest = x.shape
    split = x.reshape(examples, num_groups, channels // num_groups, *rest)
    y = over(split, tuple(range(2, split.ndim)), eps).reshape(x.shape)
    return y * spread(gamma, x) + spread(beta, x)


def loops(x, num_groups, gamma, beta, eps):
    assert x.shape[1] % num_groups == 0
    size = x.shape[1] // num_groups
    y = np.empty(x.shape, gamma.dtype)
    for example in range(len(x)):
        for start in range(0, x.shape[1], size):
            part = x[example, start : start + size]
            y[example, start : start + size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    for channel in range(x.shape[1]):
        y[:, channel] = gamma[channel] * y[:, channel] + beta[channel]
    return y


def parts(x, num_groups, gamma, beta, eps):
    split = np.split(x, num_groups, axis=1)
    normalised = [over(part, tuple(range(1, part.ndim)), eps) for part in split]
    return np.einsum("nc...,c->nc...", np.concatenate(normalised, 1), gamma) + spread(beta, x)


def torch_inside(x, num_groups, gamma, beta, eps):
    gamma, beta = spread(torch.tensor(gamma), x), spread(torch.tensor(beta), x)
    rows = torch.tensor(x).to(gamma.dtype).unflatten(1, (num_groups, -1)).flatten(2)
    var, mean = torch.var_mean(rows, dim=-1, correction=0, keepdim=True)
    xhat = ((rows - mean) * torch.rsqrt(var + eps)).reshape(x.shape)
    return torch.addcmul(beta, gamma, xhat).numpy()


def in_place_on_a_copy(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y = x.astype(gamma.dtype, copy=True, order="C")
    flat = y.reshape(len(x) * num_groups, -1)
    flat -= flat.mean(1, keepdims=True)
    flat /= np.sqrt(flat.var(1, keepdims=True) + eps)
    y *= spread(gamma, x)
    y += spread(beta, x)
    return y


@pytest.mark.parametrize("answer", [reshape, loops, parts, torch_inside, in_place_on_a_copy])
def test_right_functions_of_any_style_pass(answer):
    for part in ("forward", "images", "shapes"):
        passes(answer, f"group_instance_norm/{part}")


def jacobian(dy, x, num_groups, gamma, eps):
    """The matrix of the derivatives of a group, times the gradient at its output."""
    rows = x.reshape(len(x), num_groups, -1)
    xhat, size = over(rows, -1, eps), rows.shape[-1]
    r = 1 / np.sqrt(rows.var(-1)[..., None, None] + eps)
    outer = xhat[..., :, None] * xhat[..., None, :]
    matrix = r * (np.eye(size, dtype=xhat.dtype) - 1 / size - outer / size)
    dx = np.einsum("ngi,ngij->ngj", (dy * spread(gamma, x)).reshape(rows.shape), matrix)
    channels = (*x.shape[:2], -1)
    dgamma = np.einsum("ncp,ncp->c", dy.reshape(channels), xhat.reshape(channels))
    return dx.reshape(x.shape), dgamma, np.einsum("ncp->c", dy.reshape(channels))


def loops_backward(dy, x, num_groups, gamma, eps):
    size, others = x.shape[1] // num_groups, (0, *range(2, x.ndim))
    dx, xhat = np.empty_like(dy), np.empty_like(dy)
    for example in range(len(x)):
        for start in range(0, x.shape[1], size):
            at = example, slice(start, start + size)
            r = (x[at].var() + eps) ** -0.5
            xhat[at] = (x[at] - x[at].mean()) * r
            dxhat = (dy[at].T * gamma[at[1]]).T
            dx[at] = r * (dxhat - dxhat.mean() - xhat[at] * (dxhat * xhat[at]).mean())
    return dx, (dy * xhat).sum(others), dy.sum(others)


@pytest.mark.parametrize("answer", [jacobian, loops_backward])
def test_right_gradients_of_any_style_pass(answer):
    for part in ("backward", "dx", "dgamma_dbeta"):
        passes(answer, f"group_instance_norm/{part}")


PREDICTIONS, GROUPS_LIKE = combine("group_norm_identities")


def all_then_first(norm, group_norm, x):
    """Only divisors, all of them, then the first that is near."""
    divisors = np.array([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0])
    gaps = [np.abs(group_norm(x, int(n)) - norm(x)).max() for n in divisors]
    return divisors[np.argmin(gaps)] if min(gaps) < 1e-6 else 0


def try_all(norm, group_norm, x):
    for number in range(1, x.shape[1] + 1):
        try:
            if np.allclose(group_norm(x, number), norm(x)):
                return number
        except ValueError:
            continue
    return 0


@pytest.mark.parametrize("search", [all_then_first, try_all])
def test_right_searches_of_any_style_pass(search):
    passes((PREDICTIONS, search), "group_instance_norm/identities")


def test_the_predictions_are_what_the_search_finds():
    x = np.random.default_rng(1).normal(size=(3, 6, 4, 5))
    for name, norm in NORMS.items():
        assert PREDICTIONS[name] == GROUPS_LIKE(norm, normkit.group_norm, x), name
    names = "instance_norm", "layer_norm_of_examples", "batch_norm"
    instance, layer, batch = (NORMS[name](x) for name in names)
    np.testing.assert_allclose(instance, normkit.instance_norm(x))
    np.testing.assert_allclose(layer.reshape(3, -1), normkit.layer_norm(x.reshape(3, -1)))
    np.testing.assert_allclose(batch, normkit.batch_norm(x, training=True)[0])


INDEPENDENT, EXPERIMENT = combine("group_norm_batch")


def others_replaced(norm, x):
    y, rng = norm(x), np.random.default_rng(0)
    for i in range(len(x)):
        other = rng.normal(size=x.shape)
        other[i] = x[i]
        if np.abs(norm(other)[i] - y[i]).max() > 1e-8:
            return False
    return True


def one_by_one(norm, x):
    return np.allclose(np.concatenate([norm(example[None]) for example in x]), norm(x))


@pytest.mark.parametrize("experiment", [others_replaced, one_by_one])
def test_right_experiments_of_any_style_pass(experiment):
    passes((INDEPENDENT, experiment), "group_instance_norm/batch")


def test_the_predictions_are_what_the_experiment_finds():
    x = np.random.default_rng(1).normal(size=(4, 6, 3))
    for name, norm in BATCHED.items():
        assert INDEPENDENT[name] == others_replaced(norm, x), name


# --- Wrong ------------------------------------------------------------------------------------


def around(normalise):
    """A function that checks num_groups and applies gamma and beta, around this normalisation."""

    def answer(x, num_groups, gamma, beta, eps):
        check(x, num_groups)
        return spread(gamma, x) * normalise(x, num_groups, eps) + spread(beta, x)

    return answer


def split(x, num_groups, size=None):
    return x.reshape(len(x), num_groups, x.shape[1] // num_groups, *x.shape[2:])


def size_for_number(x, size, gamma, beta, eps):
    y = x.reshape(len(x), x.shape[1] // size, size, *x.shape[2:])
    axes = tuple(range(2, y.ndim))
    y = (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + eps)
    return y.reshape(x.shape) * spread(gamma, x) + spread(beta, x)


def size_and_remainder(x, size, gamma, beta, eps):
    y = over(x.reshape(len(x), x.shape[1] // size, size, -1), (2, 3), eps).reshape(x.shape)
    return y * spread(gamma, x) + spread(beta, x)


def interleaved(x, num_groups, gamma, beta, eps):
    y = np.empty(x.shape, gamma.dtype)
    if x.shape[1] % num_groups:
        raise ValueError
    for group in range(num_groups):
        part = x[:, group::num_groups]
        y[:, group::num_groups] = over(part, tuple(range(1, x.ndim)), eps)
    return spread(gamma, x) * y + spread(beta, x)


def flattened(x, num_groups, gamma, beta, eps):
    y = over(x.reshape(len(x), num_groups, -1), 2, eps).reshape(x.shape)
    return spread(gamma, x) * y + spread(beta, x)


def columns(x, num_groups, eps):
    return over(x.reshape(len(x), -1, num_groups), 1, eps).reshape(x.shape)


def columns_unchecked(x, num_groups, gamma, beta, eps):
    return spread(gamma, x) * columns(x, num_groups, eps) + spread(beta, x)


def instance_norm(x, num_groups, gamma, beta, eps):
    y = over(x.reshape(*x.shape[:2], -1), 2, eps).reshape(x.shape)
    return spread(gamma, x) * y + spread(beta, x)


def whole_example(x, num_groups, gamma, beta, eps):
    axes = tuple(range(1, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * spread(gamma, x) + spread(beta, x)


def batch_norm(x, num_groups, gamma, beta, eps):
    return over(x, (0, *range(2, x.ndim)), eps) * spread(gamma, x) + spread(beta, x)


def of_positions(x, num_groups, gamma, beta, eps):
    return over(x, 1, eps) * spread(gamma, x) + spread(beta, x)


def four_axes(x, num_groups, gamma, beta, eps):
    n, c, h, w = x.shape
    y = over(x.reshape(n, num_groups, c // num_groups, h, w), (2, 3, 4), eps).reshape(n, c, h, w)
    return y * gamma.reshape(1, -1, 1, 1) + beta.reshape(1, -1, 1, 1)


def unshaped(x, num_groups, gamma, beta, eps):
    return gamma * over(split(x, num_groups), tuple(range(2, x.ndim + 1)), eps).reshape(x.shape) + (
        beta
    )


def one_gamma_for_a_group(x, num_groups, gamma, beta, eps):
    check(x, num_groups)
    y = over(split(x, num_groups), tuple(range(2, x.ndim + 1)), eps)
    scale, shift = (
        v[:num_groups].reshape(1, num_groups, *[1] * (x.ndim - 1)) for v in (gamma, beta)
    )
    return (scale * y + shift).reshape(x.shape)


FORWARD = {
    "group_size_for_number": size_for_number,
    "groups_interleaved": interleaved,
    "remainder_ignored": flattened,
    "one_channel_groups": instance_norm,
    "one_group": whole_example,
    "batch_norm_instead": batch_norm,
    "layer_norm_of_positions": of_positions,
    "images_only": four_axes,
    "gamma_on_last_axis": unshaped,
    "gamma_per_group": one_gamma_for_a_group,
    "group_over_batch": around(
        lambda x, g, eps: over(split(x, g), (0, *range(2, x.ndim + 1)), eps).reshape(x.shape)
    ),
    "positions_forgotten": around(lambda x, g, eps: over(split(x, g), 2, eps).reshape(x.shape)),
    "groups_as_columns": around(columns),
    "last_axis_alone": around(lambda x, g, eps: over(split(x, g), -1, eps).reshape(x.shape)),
    "unbiased_variance": around(
        lambda x, g, eps: (
            ((flat := x.reshape(len(x), g, -1)) - flat.mean(-1, keepdims=True))
            .__truediv__(np.sqrt(flat.var(-1, keepdims=True, ddof=1) + eps))
            .reshape(x.shape)
        )
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_a_wrong_forward_pass_is_named(name):
    assert named(FORWARD[name], "group_instance_norm/forward") == [name]


def test_two_mistakes_are_both_named():
    assert named(size_and_remainder, "group_instance_norm/forward") == [
        "group_size_for_number",
        "remainder_ignored",
    ]
    assert sorted(named(columns_unchecked, "group_instance_norm/forward")) == [
        "groups_as_columns",
        "remainder_ignored",
    ]


def backward(dx):
    def answer(dy, x, num_groups, gamma, eps):
        check(x, num_groups)
        rows = x.reshape(len(x), num_groups, -1)
        r = 1 / np.sqrt(rows.var(-1, keepdims=True) + eps)
        xhat = (rows - rows.mean(-1, keepdims=True)) * r
        gamma = np.broadcast_to(spread(gamma, x), x.shape).reshape(rows.shape)
        others, flat = (0, *range(2, x.ndim)), xhat.reshape(x.shape)
        result = dx(dy.reshape(rows.shape), xhat, r, gamma)
        return result.reshape(x.shape), (dy * flat).sum(others), dy.sum(others)

    return answer


def mean(a):
    return a.mean(-1, keepdims=True)


BACKWARD = {
    "detached_statistics": lambda dy, xhat, r, g: dy * g * r,
    "gamma_outside_group_means": lambda dy, xhat, r, g: (
        g * r * (dy - mean(dy) - xhat * mean(dy * xhat))
    ),
    "mean_term_dropped": lambda dy, xhat, r, g: r * (g * dy - xhat * mean(g * dy * xhat)),
    "xhat_term_added": lambda dy, xhat, r, g: (
        r * (g * dy - mean(g * dy) + xhat * mean(g * dy * xhat))
    ),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_wrong_backward_pass_is_named(name):
    assert named(backward(BACKWARD[name]), "group_instance_norm/backward") == [name]


def summed(axes):
    def answer(dy, x, num_groups, gamma, eps):
        dx, *_ = loops_backward(dy, x, num_groups, gamma, eps)
        xhat = over(x.reshape(len(x), num_groups, -1), 2, eps).reshape(x.shape)
        return dx, np.sum(dy * xhat, axes(x)), np.sum(dy, axes(x))

    return answer


def test_wrong_sums_are_named():
    for name, axes in {
        "gradients_over_examples": lambda x: 0,
        "gradients_over_positions": lambda x: tuple(range(2, x.ndim)),
        "gradients_not_summed": lambda x: (),
    }.items():
        assert named(summed(axes), "group_instance_norm/backward") == [name]


def test_wrong_predictions_and_searches_are_named():
    def search(norm, group_norm, x):
        for number in range(1, x.shape[1]):
            if x.shape[1] % number == 0 and np.allclose(group_norm(x, number), norm(x)):
                return number
        return 0

    wrong = PREDICTIONS | {"layer_norm_of_positions": 1, "batch_norm": 6}
    assert sorted(named((wrong, search), "group_instance_norm/identities")) == [
        "batch_norm_as_instance_norm",
        "last_number_missed",
        "positions_as_one_group",
    ]
    sizes = {"layer_norm_of_examples": 6, "instance_norm": 1, "pairs_of_channels": 2}
    wrong = PREDICTIONS | sizes | {"batch_norm_of_single_examples": 1}
    assert named((wrong, GROUPS_LIKE), "group_instance_norm/identities") == ["sizes_predicted"]


@pytest.mark.parametrize(
    ("name", "norm", "number"),
    [
        ("examples_by_size", "layer_norm_of_examples", 6),
        ("positions_as_channels", "layer_norm_of_positions", 6),
        ("instance_norm_as_one_group", "instance_norm", 1),
        ("single_example_as_one_group", "batch_norm_of_single_examples", 1),
        ("pairs_by_size", "pairs_of_channels", 2),
        ("every_other_by_size", "every_other_channel", 3),
    ],
)
def test_one_wrong_prediction_is_named(name, norm, number):
    wrong = PREDICTIONS | {norm: number}
    assert named((wrong, GROUPS_LIKE), "group_instance_norm/identities") == [name]


def first_only(norm, x):
    other = np.concatenate([x[:1], 3 + 2 * x[1:]])
    return np.allclose(norm(other)[0], norm(x)[0])


def permuted(norm, x):
    order = np.random.default_rng(0).permutation(len(x))
    return np.allclose(norm(x[order]), norm(x)[order])


def repeated(norm, x):
    return np.allclose(norm(np.repeat(x[None], 2, 0).reshape(-1, *x.shape[1:]))[:4], norm(x))


def last_changed(norm, x):
    other = x.copy()
    other[-1] *= -2
    return np.allclose(norm(other)[:-1], norm(x)[:-1])


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("first_example_tested", first_only),
        ("examples_permuted", permuted),
        ("examples_repeated", repeated),
        ("last_example_changed", last_changed),
        ("always_independent", lambda norm, x: True),
        ("answer_inverted", lambda norm, x: not others_replaced(norm, x)),
        ("all_examples_changed", lambda norm, x: np.allclose(norm(x + 10), norm(x))),
    ],
)
def test_a_wrong_experiment_is_named(name, experiment):
    assert named((INDEPENDENT, experiment), "group_instance_norm/batch") == [name]


def test_wrong_ideas_of_the_batch_are_named():
    wrong = INDEPENDENT | {"batch_norm_inference": False, "group_norm": False}
    assert sorted(named((wrong, permuted), "group_instance_norm/batch")) == [
        "examples_permuted",
        "group_norm_declared_dependent",
        "inference_declared_dependent",
    ]


# --- The parts of a task ----------------------------------------------------------------------


PARTS = {
    "forward": ("images", "shapes"),
    "backward": ("dx", "dgamma_dbeta"),
    "identities": ("identities_predictions", "identities_search"),
    "batch": ("batch_predictions", "batch_experiment"),
}


def mistakes_in(task):
    return {mistake.name for mistake in TASKS[f"group_instance_norm/{task}"].mistakes}


@pytest.mark.parametrize("whole", PARTS)
def test_every_mistake_shows_in_a_part(whole):
    assert set.union(*map(mistakes_in, PARTS[whole])) == mistakes_in(whole)


def test_a_part_knows_what_cannot_show_in_it():
    missing = mistakes_in("forward") - mistakes_in("images")
    assert missing == {"images_only", "remainder_ignored", "one_pass_variance"}
    assert not mistakes_in("forward") - mistakes_in("shapes")
    assert mistakes_in("backward") - mistakes_in("dgamma_dbeta") == {
        *("detached_statistics", "mean_term_dropped", "xhat_term_dropped", "xhat_term_added"),
        *("sums_instead_of_means", "r_forgotten", "gamma_forgotten_in_dx"),
        *("gamma_outside_group_means", "means_of_batch_norm"),
        *("means_of_everything", "mean_of_everything", "product_mean_of_everything"),
        *("gamma_twice_in_dx", "gamma_forgotten_in_mean", "gamma_forgotten_in_product"),
        *("product_with_x", "product_mean_without_xhat", "exact_projection"),
        "root_inverted_in_dx",
    }
    assert mistakes_in("backward") - mistakes_in("dx") == {
        *("dgamma_without_xhat", "dgamma_with_gamma", "gradients_not_summed"),
        *("gradients_averaged", "gradients_over_examples", "gradients_over_positions"),
        "gradients_per_group",
    }
    assert not mistakes_in("identities_predictions") & mistakes_in("identities_search")
    assert not mistakes_in("batch_predictions") & mistakes_in("batch_experiment")


def test_a_part_counts_by_itself():
    halves = {
        "dx": lambda *given: (jacobian(*given)[0], None, None),
        "dgamma_dbeta": lambda *given: (None, *jacobian(*given)[1:]),
        "images": lambda x, *given: torch_inside(x, *given) if x.ndim == 4 else None,
        "shapes": lambda x, *given: reshape(x, *given) if x.ndim != 4 or x.shape[1] == 7 else None,
        "identities_predictions": (PREDICTIONS, None),
        "identities_search": ({}, GROUPS_LIKE),
        "batch_predictions": (INDEPENDENT, None),
        "batch_experiment": ({}, EXPERIMENT),
    }
    for whole, parts_of_it in PARTS.items():
        for part in parts_of_it:
            passes(halves[part], f"group_instance_norm/{part}")
            for other in {whole, *parts_of_it} - {part}:
                task = f"group_instance_norm/{other}"
                assert not judge(observe(halves[part], task), task).passed


# --- What the messages state ------------------------------------------------------------------


def test_the_groups_that_the_messages_name():
    x = np.random.default_rng(2).normal(size=(3, 12, 5))
    given = 1 + np.arange(12.0), np.arange(12.0)
    made = {mistake.name: mistake.wrong for mistake in mistakes_of("group_norm")}
    right = combine("group_norm")
    four_groups = right(x, 4, *given)
    np.testing.assert_allclose(made["group_size_for_number"](x, 3, *given), four_groups)
    np.testing.assert_allclose(made["one_group"](x, 3, *given), right(x, 1, *given))
    np.testing.assert_allclose(made["one_channel_groups"](x, 3, *given), right(x, 12, *given))
    square = x[:, :9]
    nine = given[0][:9], given[1][:9]
    np.testing.assert_allclose(
        made["group_size_for_number"](square, 3, *nine), right(square, 3, *nine)
    )
    one = x[:1]
    np.testing.assert_allclose(made["batch_norm_instead"](one, 12, *given), right(one, 12, *given))
    plain = made["variance_within_channels"](x, 3, np.ones(12), np.zeros(12))
    assert (plain.reshape(3, 3, -1).var(-1) > 1).all()


def test_the_probes_tell_groups_apart():
    for probe in TASKS["group_instance_norm/forward"].draw(0)[3:]:
        x, groups = probe.inputs["x"], probe.inputs["num_groups"]
        assert x.shape[1] != groups**2 and groups not in (1, x.shape[1])
        assert len(set(x.shape)) == x.ndim or "columns" in probe.name
        assert np.ptp(probe.inputs["gamma"]) > 0.1
