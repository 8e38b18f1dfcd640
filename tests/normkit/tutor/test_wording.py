"""A verdict in words: what a student reads."""

import numpy as np
import pytest
import wcwidth

from normkit import diagnose
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.wording import CONTINUED, WIDTH, _decimals, _wrap

LAYER_NORM, BACKWARD = "layer_norm/layer_norm", "layer_norm/layer_norm_backward"
RIGHT = combine(LAYER_NORM)
WRONG = {m.name: combine(LAYER_NORM, m) for m in mistakes_of(LAYER_NORM)}


def test_a_mistake_with_its_numbers_and_where_to_read(capsys, monkeypatch):
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/")
    diagnose(WRONG["unbiased_variance"], "layer_norm/forward")
    said = capsys.readouterr().out
    assert "divides by n - 1" in said
    assert "x = [[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]]" in said
    assert "[[0, -0.9995, 0.9995], [1.1546, -0.5773, -0.5773]]" in said
    assert "[[0, -1.2238, 1.2238], [1.414, -0.707, -0.707]]" in said
    address = "https://example.org/en/layer_norm.html#ln-mistake-unbiased-variance"
    assert said.strip().endswith(address)


def test_two_mistakes_are_numbered(capsys):
    two = [m for m in mistakes_of(LAYER_NORM) if m.name in ("no_eps", "gamma_forgotten")]
    diagnose(combine(LAYER_NORM, *two), "layer_norm/forward")
    said = capsys.readouterr().out
    assert "1. " in said and "2. " in said
    assert "eps is not used" in said and "gamma has no effect" in said


def gradients(*of):
    """The right gradients of layer normalisation, with a function of its own for some."""
    right = combine(BACKWARD)

    def answer(dy, x, gamma, eps=1e-5):
        return tuple(f(g) for f, g in zip(of, right(dy, x, gamma, eps), strict=True))

    return answer


def same(gradient):
    return gradient


def nothing(gradient):
    return None


def test_what_is_not_written_yet_hides_nothing_of_the_rest(capsys):
    diagnose(gradients(same, nothing, nothing), "layer_norm/backward")
    said = capsys.readouterr().out
    assert "Right already: dx." in said and "None instead of a result: dgamma, dbeta." in said
    assert "expected" not in said and "No mistake" not in said
    diagnose(gradients(nothing, same, np.negative), "layer_norm/backward")
    said = capsys.readouterr().out
    assert "Right already: dgamma." in said and "None instead of a result: dx." in said
    assert "dbeta" in said and "expected" in said


def test_an_exception_is_told_before_what_is_not_written_yet(capsys):
    def answer(dy, x, gamma, eps=1e-5):
        return None, np.einsum("d,d->d", dy, x), dy  # raises where there are more axes

    diagnose(answer, "layer_norm/backward")
    said = capsys.readouterr().out
    assert "This line raises ValueError" in said and "None instead of a result: dx." in said


def test_an_array_that_widens_the_result_is_told_of(capsys):
    def answer(x, gamma, beta, eps=1e-5):
        y = np.zeros(x.shape)
        y[...] = RIGHT(x, gamma, beta, eps)
        return y

    diagnose(answer, "layer_norm/forward")
    assert "float64 of all that is computed with it" in capsys.readouterr().out


MEAN_TERM = next(m for m in mistakes_of(BACKWARD) if m.name == "mean_term_dropped")


def told(message, said):
    return "".join(message.split()) in "".join(said.split())


def by_rows(into):
    def answer(x, gamma, eps=1e-5):
        y = np.zeros(x.shape)
        for index in np.ndindex(x.shape[:-1]):
            row = gamma * x[index] / np.sqrt((x[index] ** 2).max() + eps)
            if into:
                y[index] = row
        return y

    return answer


@pytest.mark.parametrize("into", [False, True])
def test_an_array_that_stays_as_np_zeros_makes_it_is_told_of(into, capsys):
    diagnose(by_rows(into), "rms_norm/forward")
    assert ("y is 0 throughout, whatever comes in" in capsys.readouterr().out) != into


def test_a_mistake_is_named_beside_a_part_that_is_missing(capsys):
    wrong = combine(BACKWARD, MEAN_TERM)
    diagnose(lambda *given: (*wrong(*given)[:2], None), "layer_norm/backward")
    said = capsys.readouterr().out
    assert "Right already: dgamma." in said and "None instead of a result: dbeta." in said
    assert told(MEAN_TERM.message, said) and "alone" not in said


def test_one_result_is_explained_although_another_is_beyond_explanation(capsys):
    def answer(*given):
        dx, dgamma, dbeta = combine(BACKWARD, MEAN_TERM)(*given)
        return dx, 17 * dgamma, dbeta

    diagnose(answer, "layer_norm/backward")
    said = capsys.readouterr().out
    assert "Right already: dbeta." in said and "dx, looked at alone, perhaps:" in said
    assert told(MEAN_TERM.message, said) and "dgamma" not in said.split("perhaps:")[1]


def test_an_input_changed_by_a_wrong_answer_is_told_with_it(capsys):
    def in_place(x, gamma, beta, eps=1e-5):
        if x.dtype.kind == "f":
            x -= x.mean(axis=-1, keepdims=True)
        else:
            x = x - x.mean(axis=-1, keepdims=True)
        return gamma * x / np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps) + beta

    diagnose(in_place, "layer_norm/forward")
    said = capsys.readouterr().out
    assert "divides by n - 1" in said and "Changed in place: x." in said


def test_an_exception_other_than_that_of_the_mistake_is_explained(capsys):
    def rows(x, gamma, beta, eps=1e-5):
        _n, _d = x.shape
        return RIGHT(x, gamma, beta, eps)

    diagnose(rows, "layer_norm/forward")
    said = capsys.readouterr().out
    assert "right for (N, D) alone" in said and "more or fewer values" in said
    diagnose(WRONG["no_keepdims"], "layer_norm/forward")
    said = capsys.readouterr().out
    assert "lost their last axis" in said and "Shapes fit if" not in said


def test_gradients_are_spoken_of_where_there_are_any(capsys):
    diagnose(lambda *given: None, "layer_norm/forward")
    assert "gradient" not in capsys.readouterr().out
    diagnose(gradients(same, nothing, nothing), "layer_norm/backward")
    assert "gradient" in capsys.readouterr().out


def test_a_gradient_that_is_none_is_no_matter_of_return_where_a_mistake_says_why(capsys):
    (mistake,) = (m for m in mistakes_of("dyt/DyT") if m.name == "alpha_detached")
    diagnose(combine("dyt/DyT", mistake), "dyt/layer")
    said = capsys.readouterr().out
    assert "alpha receives no gradient" in said and "return gives None" not in said


def test_an_answer_that_was_not_begun_is_told_so(capsys):
    def untouched(x, gamma, beta, eps=1e-5):
        raise NotImplementedError

    diagnose(untouched, "layer_norm/forward")
    said = capsys.readouterr().out
    assert "put your own code in its place" in said and "exception" not in said


def test_lines_end_between_chinese_characters_and_never_inside_a_name():
    text = "方差要除以特征数，而不是特征数减一：" * 5 + " running_mean_of_the_layer 不变。"
    lines = [line.removeprefix(CONTINUED) for line in _wrap(text)]
    assert all(WIDTH - 6 < wcwidth.wcswidth(line) <= WIDTH + 2 for line in lines[:-1])
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert any("running_mean_of_the_layer" in line for line in lines)
    assert not any(line[0] in "，。：" for line in lines)


def test_small_differences_are_shown_with_enough_digits(capsys):
    diagnose(lambda *a: RIGHT(*a) * (1 + 1e-5), "layer_norm/forward")
    said = capsys.readouterr().out
    ours, expected, *_ = (line.split()[1:] for line in said.splitlines() if line.startswith("  "))
    assert ours != expected


def test_small_numbers_on_the_way_are_not_rounded_to_0(capsys):
    def fixed(x, gamma, eps=1e-5):
        return gamma * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 0.0000125)

    diagnose(fixed, "rms_norm/forward")
    assert "mean_square [[0.00000001]]" in capsys.readouterr().out
    steps = {"sum": np.array([1e-17, 0.0]), "mean": np.float64(0.0067), "var": np.array([0.02])}
    assert [_decimals(value) for value in steps.values()] == [12, 6, 4]


def test_what_no_memory_holds_is_shown_with_its_power_of_ten(capsys):
    diagnose(lambda *a: RIGHT(*a) * 1e90, "layer_norm/forward")
    said = capsys.readouterr().out
    assert "e+90" in said and "0000000" not in said


def test_a_large_array_is_shown_where_it_is_worst(capsys):
    def answer(x, *rest):
        y = RIGHT(x, *rest)
        if y.shape == (5, 7):
            y[3, 2] += 1
        return y

    diagnose(answer, "layer_norm/forward")
    assert "y[3, 2]" in capsys.readouterr().out
