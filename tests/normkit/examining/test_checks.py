"""Every finding has a broken model that gives it, and a mended twin that does not."""

from pathlib import Path

import pytest
import torch

from normkit.examining import examine
from normkit.examining.checks import CHECKS, CONSEQUENCES
from tests.normkit.examining.broken import CASES

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in (1, 2, 3, 4))]


def all_of(findings):
    """Findings and what is folded under them."""
    for finding in findings:
        yield finding
        yield from all_of(finding.consequences)


def report(case, mended, seed=0):
    torch.manual_seed(seed)
    model, inputs, options = case.build(mended)
    return examine(model, *inputs, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_model_is_found_by_name_and_path(case, seed):
    found = report(case, False, seed)
    same = [f for f in all_of(found.findings) if (f.name, f.level) == (case.finding, case.level)]
    assert any(case.path in finding.paths for finding in same), found
    assert all(isinstance(v, (int, float)) for f in same for v in f.values.values())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_mended_twin_has_no_error_and_no_warning(case, seed):
    found = report(case, True, seed)
    assert found.level in {None, "note"}, found
    assert case.finding not in {finding.name for finding in all_of(found.findings)}
    assert not found.skipped


def test_every_check_has_a_broken_model():
    known = {check.name for check in CHECKS} - {"behaves_like_a_mistake"}  # whose names vary
    assert known <= {case.finding for case in CASES}


def test_consequences_are_findings_too():
    known = {check.name for check in CHECKS} | {"forward_pass_fails"}
    assert {*CONSEQUENCES, *(name for of in CONSEQUENCES.values() for name in of)} <= known


def test_one_cause_first_and_its_consequences_under_it():
    case = next(case for case in CASES if case.name == "buffers_in_bfloat16")
    found = report(case, False).findings
    assert [f.name for f in found if f.level == "error"] == ["statistics_in_half_precision"]


def test_every_finding_points_to_a_place_of_the_book():
    book = Path(__file__).parents[3] / "book"
    for check in CHECKS:
        page, _, label = check.heading.rpartition("#")
        text = (book / f"{page or 'practice'}.md").read_text("utf-8")
        assert f"({label})=" in text, check.heading
