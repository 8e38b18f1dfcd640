"""A report travels as names and numbers."""

import json

import pytest
import torch

import normkit
from normkit.examining import examine
from tests.normkit.examining.broken import CASES


@pytest.fixture(params=["infinite_mean", "buffers_in_bfloat16"])
def report(request):
    torch.manual_seed(0)
    case = next(case for case in CASES if case.name == request.param)
    model, inputs, options = case.build(False)
    return examine(model, *inputs, **options)


def test_json_holds_names_and_numbers_and_is_the_same_in_every_language(report):
    told = []
    for language in ("en", "fr", "zh"):
        normkit.speak(language)
        told.append(report.to_json())
    normkit.speak("en")
    assert told[0] == told[1] == told[2]
    found = json.loads(told[0], parse_constant=lambda name: pytest.fail(name))
    assert found["findings"][0]["level"] == report.level == "error"
    assert set(found["norms"][0]) >= {"path", "class", "kind", "axes", "count", "eps", "place"}


def test_levels_stand_in_order(report):
    order = [("error", "warning", "note").index(finding.level) for finding in report.findings]
    assert order == sorted(order)
