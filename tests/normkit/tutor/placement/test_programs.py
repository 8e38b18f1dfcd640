"""The programs of the placements: they agree with the library, and what their mistakes do."""

import math

import numpy as np
import pytest
import torch

from normkit import Attention, CharacterTransformer, Residual, deepnorm_constants, deepnorm_init
from normkit import layer_norm as library_norm
from normkit.tutor.judging import differences
from normkit.tutor.mistakes import catalogue, combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.placement.tasks import first_of_third, layer_norm, silent
from normkit.tutor.tasks import find

PLACEMENTS = ("post", "pre", "deep", "peri", "output")
X = np.array([0.0, 2, 4])
ONE_NORM = {  # of X and F(v) = [v[2], 0, 0], by hand
    "post": [0.7071, -1.4142, 0.7071],
    "pre": [1.2247, 2, 4],
    "deep": [-0.7071, -0.7071, 1.4142],
    "peri": [1.4142, 1.2929, 3.2929],
    "output": [1.4142, 1.2929, 3.2929],
}


def right(program):
    return combine(f"placement/{program}")


def wrong(program):
    name = f"placement/{program}"
    return {mistake.name: combine(name, mistake) for mistake in mistakes_of(name)}


def first(task):
    """What the right program returns on the first probe of a task."""
    task = find(f"placement/{task}")
    return observe(combine(task.programs[0]), task).results[0].values


def sublayer(block, x=X, branch=first_of_third, **alpha):
    """What a block makes of x when its feed-forward part is silent."""
    return block(x, branch, silent, [layer_norm] * 4, **alpha)


# --- They agree with the library --------------------------------------------------------------


def block(placement):
    """Two of normkit's residual branches, which work on NumPy arrays as on tensors."""

    def answer(x, attention, feed_forward, norms, alpha=None):
        left = iter(norms)
        for branch in (attention, feed_forward):
            x = Residual(branch, x.shape[-1], placement, alpha, lambda *_, **__: next(left))(x)
        return x

    return answer


def stack(blocks, width, placement):
    end = CharacterTransformer(2, width, 1, 1, 1, placement).final_norm
    return torch.nn.Sequential(*blocks, end)


def init(attention, feed_forward, beta):
    """That of a module of the library, with these layers in it."""
    attention_2, feed_forward_2 = (
        block.branch for block in CharacterTransformer(2, 128, 2, 1).blocks
    )
    for name, linear in (*attention.named_children(), *feed_forward.named_children()):
        setattr(attention_2 if hasattr(attention, name) else feed_forward_2, name, linear)
    deepnorm_init(torch.nn.ModuleList([attention_2, feed_forward_2]), beta)


def attention(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
    """normkit's layer, with projections that return what is given."""
    q, k, v, gamma_q, gamma_k = map(torch.from_numpy, (q, k, v, gamma_q, gamma_k))
    layer = Attention(q.shape[-1], heads, qk_norm, dtype=q.dtype)
    for projection, value in ((layer.q, q), (layer.k, k), (layer.v, v)):
        projection.forward = lambda _, value=value: value
    layer.out.forward = lambda mixed: mixed
    for norm, gamma in ((layer.q_norm, gamma_q), (layer.k_norm, gamma_k)):
        norm.weight.data, norm.eps = gamma, eps
    return layer(q).detach().numpy()


def gradient(model, tokens):
    logits = model(tokens[:, :-1]).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
    (gradient,) = torch.autograd.grad(loss, model.blocks[-1].branch.down.weight)
    return torch.linalg.vector_norm(gradient)


LIBRARY = {
    **{placement: block(placement) for placement in PLACEMENTS},
    "model": stack,
    "constants": deepnorm_constants,
    "init": init,
    "qk_norm": attention,
    "gradient": gradient,
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", LIBRARY)
def test_the_programs_agree_with_the_library(name, seed):
    task = find(f"placement/{name}")
    assert not any(differences(observe(LIBRARY[name], task, seed), task, seed))


def test_the_norm_of_the_probes_is_that_of_the_library():
    x = np.random.default_rng(0).normal(size=(3, 4))
    gamma, beta = np.arange(4) + 0.5, np.arange(4) - 1.5
    expected = library_norm(x, gamma, beta, 0.1)
    np.testing.assert_allclose(layer_norm(x, gamma, beta, 0.1), expected)


# --- The tasks --------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_worked_block(placement):
    np.testing.assert_allclose(first(placement)["y"], ONE_NORM[placement], atol=6e-5)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_what_is_right_in_one_placement_is_a_mistake_in_the_others(placement):
    right = "post" if placement == "deep" else placement
    names = (m.name for m in mistakes_of(f"placement/{placement}_block"))
    found = {n.removeprefix("deep_").removesuffix("_instead") for n in names}
    assert found & set(PLACEMENTS) == {"post", "pre", "peri", "output"} - {right}


def test_the_worked_attention():
    weight = 1 / (1 + math.exp(1.6))  # the scores are -0.2 and 1.4
    expected = [[0, 1], [1 - weight, weight]]
    np.testing.assert_allclose(first("qk_norm")["y"], expected, atol=1e-8)


def test_the_gradient_is_the_slope_of_the_loss():
    torch.manual_seed(0)
    model = CharacterTransformer(5, 8, 2, 2, 8, dtype=torch.float64)
    tokens = torch.randint(5, (3, 7))
    norm = right("gradient_norm")(model, tokens).item()
    matrix = model.blocks[-1].branch.down.weight
    step, losses = 1e-5 * matrix.grad / norm, []
    with torch.no_grad():
        for sign in (1, -1):
            matrix += sign * step
            logits = model(tokens[:, :-1])
            losses.append(torch.nn.functional.cross_entropy(logits.mT, tokens[:, 1:]).item())
            matrix -= sign * step
    assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(norm, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_rounded_gains_are_those_asked_for(seed):
    found = observe(right("deepnorm_init"), "placement/init", seed).results
    for result, beta in zip(found, (0.4, 0.1), strict=True):
        gains, means, normal, bias, odd, dtypes, added, alike, fixed = result.values.values()
        np.testing.assert_allclose(gains, [1, 1, beta, beta, beta, beta], atol=1e-12)
        assert not means.any() and normal.all() and bias == 0 and odd == 0
        assert not added and not alike and not fixed
        assert dtypes == "torch.float32"


def test_labels_are_their_own():
    labels = [mistake.label for mistake in catalogue("placement")[""]]
    assert len(set(labels)) == len(labels) > 150


# --- The numbers in the messages --------------------------------------------------------------


def test_numbers_on_blocks():
    blocks = wrong("pre_block") | wrong("post_block")
    for name in ("post", "pre", "output"):
        y = sublayer(blocks[f"{name}_instead"])
        np.testing.assert_allclose(y, np.round(ONE_NORM[name], 2), atol=5e-3)
    deep = wrong("deep_block")
    y = sublayer(deep["alpha_on_branch"], alpha=2)
    np.testing.assert_allclose(y, [1.34, -1.07, -0.27], atol=5e-3)
    plain = sublayer(right("post_block"))
    for name, factor in (("alpha_on_both", 1), ("alpha_outside_norm", 2), ("alpha_forgotten", 1)):
        y = sublayer(deep[name], alpha=2)
        np.testing.assert_allclose(y, factor * plain, atol=1e-4)
    three = sublayer(right("deep_block"), alpha=3)
    np.testing.assert_allclose(sublayer(deep["stream_twice"], alpha=2), three)


def test_two_formulas_from_the_wild():
    rng = np.random.default_rng(0)
    x, (a, f) = rng.normal(size=(4, 6)), rng.normal(size=(2, 6, 6))

    def attention(v):
        return np.tanh(v @ a)

    def feed_forward(v):
        return v @ f

    norm = layer_norm
    given = x, attention, feed_forward, [norm, norm]
    nested = x + norm(feed_forward(x + norm(attention(x))))
    y = wrong("post_block")["nested_residuals"](*given)
    np.testing.assert_allclose(y, nested, rtol=1e-12)
    assert abs(right("post_block")(*given).var(-1) - 1).max() < 1e-4 < abs(y.var(-1) - 1).min()
    parallel = x + feed_forward(norm(x)) + attention(norm(x))
    y = wrong("pre_block")["parallel_branches"](*given)
    np.testing.assert_allclose(y, parallel, rtol=1e-12)


def test_a_second_residual_doubles_the_stream():
    model = wrong("Stack")["residual_added_again"]([torch.nn.Identity()] * 3, 2, "post")
    assert model(torch.tensor([1.0, 3])).tolist() == [8, 24]


def test_numbers_on_constants():
    found = wrong("deepnorm_constants")

    def alone(name):
        return found[name](0, 8)["decoder"]

    assert deepnorm_constants(0, 8)["decoder"] == (2, pytest.approx(0.354, abs=5e-4))
    assert deepnorm_constants(0, 1000)["decoder"][0] == pytest.approx(6.7, abs=0.05)
    assert alone("square_root")[0] == 4
    assert alone("exponent_without_brackets")[0] == 4
    assert alone("factor_outside_power")[0] == pytest.approx(3.36, abs=5e-3)
    assert alone("alpha_below_one")[0] == 0.5
    for exchanged in (
        alone("two_and_eight_exchanged"),
        ((12 * 27) ** (1 / 4), (3 * 27) ** (-1 / 4)),
    ):
        assert math.prod(exchanged) == pytest.approx(math.sqrt(2))
    for pair in (deepnorm_constants(0, 8)["decoder"], deepnorm_constants(5, 27)["decoder"]):
        assert math.prod(pair) == pytest.approx(1 / math.sqrt(2))
    assert deepnorm_constants(2, 0)["encoder"][1] == 1 / found["beta_above_one"](2, 0)["encoder"][1]
    assert deepnorm_constants(2, 0)["encoder"][1] == 0.5
    assert deepnorm_constants(2, 16)["encoder"][0] == pytest.approx(1.15, abs=5e-3)
    assert deepnorm_constants(2, 27)["decoder"][0] == pytest.approx(3)
    assert deepnorm_constants(5, 27)["decoder"][0] == pytest.approx(3)
    assert found["power_of_m_alone"](2, 16)["encoder"][0] == pytest.approx(15.4, abs=0.05)
    assert found["beta_as_inverse_of_alpha"](2, 0)["encoder"] != deepnorm_constants(2, 0)["encoder"]
    assert deepnorm_constants(2, 0)["encoder"] == (pytest.approx(1.41, abs=5e-3), 0.5)
    for name, alpha in (("exponent_without_brackets", 20.25), ("factor_outside_power", 6.84)):
        assert alone(f"{name}_alone")[0] == alone(name)[0]
        together = found[f"{name}_together"](2, 27)["decoder"][0]
        assert together == pytest.approx(alpha, abs=5e-3)


def test_numbers_on_first_weights():
    torch.manual_seed(0)
    linear = torch.nn.Linear(512, 512)
    xavier = math.sqrt(2 / 1024)
    assert linear.weight.std().item() / xavier == pytest.approx(0.58, abs=5e-3)
    torch.nn.init.xavier_uniform_(linear.weight)
    assert linear.weight.std().item() == pytest.approx(xavier, rel=5e-3)
    assert linear.weight.abs().max().item() == pytest.approx(math.sqrt(3) * xavier, rel=1e-3)
    torch.nn.init.kaiming_normal_(linear.weight)
    assert linear.weight.std().item() / xavier == pytest.approx(math.sqrt(2), rel=5e-3)
    variance = 2 / (128 + 128)
    assert (variance, math.sqrt(variance)) == pytest.approx((0.0078, 0.088), rel=7e-3)


def test_numbers_on_attention():
    q = np.array([[3.0, 4, 0], [3, 4, 0]])
    given = {"heads": 1, "qk_norm": "full", "gamma_q": np.ones(3), "gamma_k": np.ones(3)}
    rms = q / np.sqrt(np.mean(q**2, -1, keepdims=True))
    np.testing.assert_allclose(rms @ rms.T, 3)  # d, where q and k point the same way
    probe = {"q": 5 * q, "k": q[::-1] * [[1], [-1]], "v": np.eye(2, 3), **given}
    found = wrong("qk_attention")
    weights = found["euclidean_norm"](**probe)[1, :2]
    np.testing.assert_allclose(weights[0] / weights[1], math.exp(2 / math.sqrt(3)), rtol=1e-5)
    weights = right("qk_attention")(**probe)[1, :2]
    np.testing.assert_allclose(weights[0] / weights[1], math.exp(6 / math.sqrt(3)), rtol=1e-5)


def test_the_first_gradient_of_pre_norm_is_the_larger_one():
    ratios = []
    for seed in range(5):
        torch.manual_seed(seed)
        model, tokens = CharacterTransformer(35, layers=16), torch.randint(35, (32, 17))
        first_layer = wrong("gradient_norm")["first_layer"](model, tokens)
        ratios.append(first_layer.item() / right("gradient_norm")(model, tokens).item())
    assert 2 < np.mean(ratios) < 3


def test_accumulated_gradients_double():
    answer = wrong("gradient_norm")["gradients_accumulated"]
    _, ratio, _ = observe(answer, "placement/gradient").results[0].values.values()
    assert ratio == pytest.approx(2)


def test_a_second_softmax_makes_the_gradient_small():
    torch.manual_seed(0)
    model, tokens = CharacterTransformer(20, layers=2), torch.randint(20, (8, 17))
    twice = wrong("gradient_norm")["softmax_twice"](model, tokens).item()
    assert twice < 0.3 * right("gradient_norm")(model, tokens).item()
