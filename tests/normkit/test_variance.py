"""The variance: all ways agree, keep their digits, and merge in any chunks."""

from functools import reduce

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normkit.variance import merge, moments, one_pass, two_pass, welford

modest = settings(max_examples=50, deadline=None, derandomize=True)


def sample(offset, shape=1024):
    return np.random.default_rng(0).normal(size=shape) + offset


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, jnp.asarray])
def test_all_ways_agree_without_an_offset(make):
    x = sample(0.5, (40, 3))
    for way in (two_pass, one_pass, lambda x: welford(x).variance()):
        np.testing.assert_allclose(np.asarray(way(make(x))), x.var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("offset", [1e3, 1e4, 1e5])
def test_only_one_pass_loses_all_digits(offset):
    x = sample(offset).astype(np.float32)
    right = x.astype(float).var()
    np.testing.assert_allclose(two_pass(x), right, rtol=2e-4)
    np.testing.assert_allclose(welford(x).variance(), right, rtol=2e-3)
    chunks = map(moments, np.split(x, 16))
    np.testing.assert_allclose(reduce(merge, chunks).variance(), right, rtol=2e-3)
    assert abs(one_pass(x) - right) > 0.05


def test_only_one_pass_may_be_negative():
    x = np.tile(np.linspace(1, 100, 1000, dtype=np.float32), (3, 1))  # a thousand constants
    assert one_pass(x).min() < 0
    assert two_pass(x).min() >= 0 and welford(x).m2.min() >= 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_accumulates_in_single(dtype):
    x = torch.tensor(sample(100)).to(dtype)
    right = x.double().var(correction=0).item()
    for found in (two_pass(x), welford(x).variance()):
        assert found.dtype == torch.float32
        assert abs(found.item() - right) < 1e-3 * right


@pytest.mark.parametrize("cut", [0, 1, 2, 500, 1023, 1024])
@pytest.mark.parametrize("way", [moments, welford])
def test_any_two_chunks_merge_in_either_order(way, cut):
    x = sample(3.0)
    whole = moments(x)
    first, second = way(x[:cut]), way(x[cut:])
    for found in (merge(first, second), merge(second, first)):
        np.testing.assert_allclose(found, whole, rtol=1e-12)


def test_a_value_at_a_time_is_welford():
    x = sample(0, (6, 2))
    one_by_one = reduce(merge, (moments(x[i : i + 1]) for i in range(6)))
    for a, b in zip(one_by_one, welford(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_no_values_and_one_value():
    x = sample(0, (3, 2))
    for way in (moments, welford):
        nothing, one = way(x[:0]), way(x[:1])
        assert nothing.n == 0 and nothing.mean.shape == (2,)
        assert merge(nothing, nothing).n == 0
        assert (one.n, *one.variance()) == (1, 0, 0)
        with pytest.raises(ValueError, match="more than 0 values; there are 0"):
            nothing.variance()
        with pytest.raises(ValueError, match="more than 1 values; there are 1"):
            one.variance(correction=1)


def test_unbiased():
    x = np.array([0.0, 2, 4, 6])
    assert welford(x).variance() == 5
    np.testing.assert_allclose(welford(x).variance(correction=1), x.var(ddof=1))


def test_what_has_no_values_is_refused():
    for way in (moments, welford, two_pass, one_pass):
        with pytest.raises(TypeError, match="x must be an array, not a list"):
            way([1.0, 2.0])
        with pytest.raises(ValueError, match="axis 0, the values"):
            way(np.float64(3))


@modest
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.tuples(*[st.integers(0, 30)] * 2).map(sorted),
    offset=st.floats(-1000, 1000),
)
def test_three_chunks_merge_in_any_grouping(seed, cuts, offset):
    x = np.random.default_rng(seed).normal(offset, size=(30, 2))
    first, second = cuts
    a, b, c = moments(x[:first]), welford(x[first:second]), moments(x[second:])
    for found in (merge(merge(a, b), c), merge(a, merge(b, c)), welford(x)):
        for ours, right in zip(found, moments(x), strict=True):
            np.testing.assert_allclose(ours, right, rtol=1e-9)


@modest
@given(st.lists(st.floats(-(2**50), 2**50, width=32), min_size=2), st.data())
def test_no_variance_is_negative(values, data):
    x = np.array(values, dtype=np.float32)
    cut = data.draw(st.integers(0, len(x)))
    for found in (moments(x), welford(x), merge(welford(x[:cut]), welford(x[cut:]))):
        assert found.m2 >= 0
