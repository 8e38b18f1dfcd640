"""What a report says: every finding in words, in every language, in every face."""

import re
from string import Formatter

import pytest
import torch
from torch import nn

import normkit
from normkit.examining import examine
from normkit.examining.checks import CHECKS
from normkit.examining.wording import SENTENCES, sentences
from normkit.messages import LANGUAGES
from tests.normkit.examining.broken import CASES, images, network


@pytest.fixture(params=LANGUAGES)
def language(request):
    normkit.speak(request.param)
    yield request.param
    normkit.speak("en")


def test_every_check_has_its_sentences():
    names = {check.name for check in CHECKS} - {"behaves_like_a_mistake"} | {"forward_pass_fails"}
    assert set(SENTENCES) == names


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_numbers_of_a_finding_fill_its_sentences(case):
    torch.manual_seed(0)
    model, inputs, options = case.build(False)
    report = examine(model, *inputs, **options)
    for language in LANGUAGES:
        normkit.speak(language)
        for finding in report.findings:
            found, todo = sentences(finding)
            assert found and todo and not re.search(r"[{}]", found + todo)
            own = SENTENCES.get(finding.name, ("",))[0]
            wanted = {name for _, name, _, _ in Formatter().parse(own) if name}
            assert wanted - {"axis"} <= set(finding.values)
    normkit.speak("en")
    assert case.path in str(report) and "<script" not in report._repr_html_()


def test_text_and_tables_show_what_was_found(language):
    model = network(nn.BatchNorm2d)
    model[1].running_mean[0] = torch.nan
    model.register_module("<b>", nn.LayerNorm(3))
    report = examine(model, images())
    for shown in (str(report), report._repr_html_()):
        assert "running_statistics_not_finite" in shown and "practice.html" in shown
        assert f"{language}/practice.html#practice-not-finite" in shown
    assert "<b>" not in report._repr_html_() and "&lt;b&gt;" in report._repr_html_()


def test_noise_is_called_noise():
    noise = examine(network(nn.BatchNorm2d), torch.randn(4, 3, 12, 12))
    assert noise.is_noise and "noise" in str(noise)
    assert not examine(network(nn.BatchNorm2d), images()).is_noise
