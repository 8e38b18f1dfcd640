"""Group normalisation: what its messages state, and what its probes must tell apart."""

import numpy as np
import pytest

import normkit
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.tasks import find


def close(ours, theirs, probe):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=probe.tolerance, atol=10 * probe.tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_the_program_is_that_of_the_library(seed):
    for probe in find("group_instance_norm/forward").draw(seed)[:-1]:
        ours = combine("group_instance_norm/group_norm")(*probe.inputs.values())
        close([ours], [normkit.group_norm(*probe.inputs.values())], probe)


@pytest.mark.parametrize("program", ["group_norm_backward", "group_norm_backward_staged"])
def test_both_gradients_are_those_of_the_library(program):
    for probe in find("group_instance_norm/backward").draw(0):
        ours = combine(f"group_instance_norm/{program}")(*probe.inputs.values())
        close(ours, normkit.group_norm_backward(*probe.inputs.values()), probe)


def test_the_groups_that_the_messages_name():
    x = np.random.default_rng(2).normal(size=(3, 12, 5))
    given = 1 + np.arange(12.0), np.arange(12.0)
    program = "group_instance_norm/group_norm"
    made = {mistake.name: combine(program, mistake) for mistake in mistakes_of(program)}
    right = combine(program)
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
    for probe in find("group_instance_norm/forward").draw(0)[3:]:
        x, groups = probe.inputs["x"], probe.inputs["num_groups"]
        assert x.shape[1] != groups**2 and groups not in (1, x.shape[1])
        assert len(set(x.shape)) == x.ndim or "columns" in probe.name
        assert np.ptp(probe.inputs["gamma"]) > 0.1
