"""Every finding has a broken model that gives it, and a mended twin that does not."""

from pathlib import Path

import pytest
import torch
from torch import nn

from normkit.examining import examine
from normkit.examining.checks import CHECKS, CONSEQUENCES
from normkit.examining.report import every
from tests.normkit.examining.broken import (
    CASES,
    images,
    network,
    perceptron,
    rows,
    sequences,
    trained,
)

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in (1, 2, 3, 4))]


def report(case, mended, seed=0):
    torch.manual_seed(seed)
    model, inputs, options = case.build(mended)
    return examine(model, *inputs, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_model_is_found_by_name_and_path(case, seed):
    found = report(case, False, seed)
    same = [f for f in every(found.findings) if (f.name, f.level) == (case.finding, case.level)]
    assert any(case.path in finding.paths for finding in same), found
    assert all(isinstance(v, (int, float)) for f in same for v in f.values.values())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_mended_twin_has_no_error_and_no_warning(case, seed):
    found = report(case, True, seed)
    assert found.level in {None, "note"}, found
    assert case.finding not in {finding.name for finding in every(found.findings)}
    assert not found.skipped


def test_every_check_has_a_broken_model():
    known = {check.name for check in CHECKS} - {"behaves_like_a_mistake"}  # whose names vary
    assert known <= {case.finding for case in CASES}


def test_consequences_are_findings_too():
    known = {check.name for check in CHECKS} | {"forward_pass_fails"}
    assert {*CONSEQUENCES, *(name for of in CONSEQUENCES.values() for name in of)} <= known


def test_two_views_of_one_source_do_no_harm():
    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = perceptron(nn.BatchNorm1d(8))

        def forward(self, x):
            return self.body(x), self.body(x + 0.1 * torch.randn_like(x))

    found = examine(trained(Views(), x := rows(64)), x)
    assert [f.name for f in found.findings] == ["shared_running_statistics"]
    assert found.level == "note"


def test_a_batch_norm_of_tokens_has_its_channels_last():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(16))

        def forward(self, x, mask):
            there = x[mask.bool()]
            return self.weight * (x - there.mean(0)) * torch.rsqrt(there.var(0) + 1e-5)

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(16, 16), Masked()

        def forward(self, x, mask):
            return self.norm(self.inner(x), mask)

    found = every(examine(Tokens(), sequences(), torch.ones(4, 6)).findings)
    assert "channels_on_another_axis" not in {finding.name for finding in found}


def test_a_mistake_has_one_name():
    class Outside(nn.Module):
        def forward(self, x):
            root = x.float().square().mean(-1, keepdim=True).sqrt()
            return (x / (root + 1e-4)).to(x.dtype)

    (found,) = examine(perceptron(Outside()), rows()).findings
    assert found.name == "eps_outside_the_root" and found.level == "warning"
    assert [effect.name for effect in found.consequences] == ["not_finite_on_constants"]


def test_a_consequence_keeps_its_own_and_counts():
    class Outside(nn.Module):
        def __init__(self, eps):
            super().__init__()
            self.eps = eps

        def forward(self, x):
            root = x.float().square().mean(-1, keepdim=True).sqrt()
            return (x / (root + self.eps)).to(x.dtype)

    model = nn.Sequential(*(part for eps in (1e-4, 1e-4, 1e-6) for part in block(Outside(eps))))
    report = examine(model, rows())
    (cause,) = report.findings
    assert {f.name for f in every([cause])} == {
        "eps_outside_the_root",
        "not_finite_on_constants",
        "several_eps",
    }
    assert cause.level == "warning" and report.level == "error"


def block(norm):
    return nn.Linear(8, 8), norm


def test_one_cause_first_and_its_consequences_under_it():
    case = next(case for case in CASES if case.name == "buffers_in_bfloat16")
    found = report(case, False).findings
    assert [f.name for f in found if f.level == "error"] == ["statistics_in_half_precision"]


def test_a_mean_that_is_nan_is_not_taken_for_another_update():
    model = network(nn.BatchNorm2d)
    model[1].running_mean[0] = torch.nan
    found = examine(model, images()).findings
    assert [f.name for f in found if f.level == "error"] == ["running_statistics_not_finite"]


def test_every_finding_points_to_a_place_of_the_book():
    book = Path(__file__).parents[3] / "book"
    for check in CHECKS:
        page, _, label = check.heading.rpartition("#")
        text = (book / f"{page or 'practice'}.md").read_text("utf-8")
        assert f"({label})=" in text, check.heading
