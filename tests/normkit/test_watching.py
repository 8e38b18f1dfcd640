"""Watching a training run: what stops it, what is noted, and that nothing changes."""

import copy
import itertools
import json
import re
import sys
from xml.etree import ElementTree

import pytest
import torch
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po
from torch import nn
from torch.nn.functional import cross_entropy

import normkit
from normkit import CharacterTransformer, NotFinite, messages, speak, watch
from normkit.watching import history, places, reading, report, telling

FOLDER = messages.HERE / "watching"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    yield
    speak("en")


class Block(nn.Module):
    """A residual branch behind its norm."""

    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.up(self.norm(x))


def perceptron():
    """Two batch norms, `1` and `4`."""
    return nn.Sequential(
        *(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()),
        *(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()),
        nn.Linear(16, 1),
    )


def stream():
    """Four blocks, whose norms are `1.norm` to `4.norm`, and a last norm, `5`."""
    blocks = (Block() for _ in range(4))
    return nn.Sequential(nn.Linear(8, 16), *blocks, nn.LayerNorm(16), nn.Linear(16, 1))


def batches(count=40, change=lambda step, x: x, dtype=torch.float32):
    for step in range(1, count + 1):
        yield change(step, torch.randn(64, 8)).to(dtype)


def square(y):
    return y.float().square().mean()


def train(model, data, loss=square, optimizer=None, **options):
    """The watch, and what it raised."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-3)
    raised = None
    seen = watch(model, **options)
    try:
        with seen:
            for x in data:
                optimizer.zero_grad()
                loss(model(x)).backward()
                optimizer.step()
    except NotFinite as error:
        raised = error
    return seen, raised


def noted(seen):
    return [(note.name, note.path) for note in seen.notes]


# --- Five planted failures, each with a healthy twin ----------------------------------------------


def growing(module, factor, start=1):
    """Batches beside which the weights of a module grow in each step."""

    def change(step, x):
        if step >= start:
            module.weight.data.mul_(factor)
        return x

    return change


def test_overflow_in_half_precision_is_found_where_it_happens():
    model = stream().half()
    seen, raised = train(model, batches(80, growing(model[2].up, 1.3, 5), torch.float16))
    assert (raised.path, raised.direction) == ("3.norm", "forward")
    assert 30 < raised.step == seen.steps + 1 <= 60
    told = str(raised)
    assert re.search(r"What grew most: the input of 3.norm, ×\d+ since step (\d+)", told)
    assert "float16, which ends at 65504" in told
    assert all(p.isfinite().all() for p in model.parameters())  # before the update


def test_its_twin_in_float32_grows_and_goes_on():
    model = stream()
    seen, raised = train(model, batches(60, growing(model[2].up, 1.3, 5)))
    assert raised is None and seen.steps == 60
    assert ("grows", "3.norm") in noted(seen) and ("grows", "2.norm") not in noted(seen)


def test_half_precision_without_growth_says_nothing():
    seen, raised = train(stream().half(), batches(dtype=torch.float16))
    assert raised is None and seen.notes == []


def one_batch(factor, at=25):
    return batches(change=lambda step, x: x * factor if step == at else x)


def test_one_batch_that_ruins_the_statistics_is_noted_with_its_step():
    seen, raised = train(perceptron(), one_batch(255))
    assert raised is None
    (note,) = seen.notes
    assert (note.name, note.path, note.fields["step"]) == ("variance_ruined", "1", 25)
    assert 1000 < note.fields["factor"] < 10000
    left = note.fields["factor"] * 0.9 ** note.fields["batches"]
    assert 0.9 < left < 1.1  # on top of what it was


def test_one_shifted_batch_moves_the_running_mean():
    data = batches(change=lambda step, x: x + 1000 * (step == 25))
    seen, _ = train(perceptron(), data)
    assert [(n.name, n.path, n.fields["step"]) for n in seen.notes] == [("mean_ruined", "1", 25)]


def test_a_batch_whose_variance_overflows_stops_at_the_buffer():
    model = perceptron()
    _, raised = train(model, one_batch(1e25))
    assert (raised.step, raised.path, raised.direction) == (25, "1.running_var", "buffers")
    assert "1.running_var. Load them from a checkpoint" in str(raised)


def test_a_batch_with_nan_stops_at_the_first_layer_and_names_the_damage():
    _, raised = train(perceptron(), one_batch(float("nan")))
    assert (raised.step, raised.path, raised.direction) == (25, "1", "forward")
    assert "Nothing grew much before" in str(raised)
    assert "1.running_mean, 1.running_var, 4.running_mean and 1 more" in str(raised)


def test_healthy_batch_norms_say_nothing():
    seen, raised = train(perceptron(), batches())
    assert raised is None and seen.notes == []
    seen, raised = train(perceptron(), batches(change=lambda step, x: 1000 * x + 50))
    assert raised is None and seen.notes == []  # the first batches move the statistics far


def characters(count=40):
    """Batches of a text with a period, and the loss for the next character."""
    text, target = torch.arange(4000) * 7 % 35, torch.zeros(0)

    def data():
        nonlocal target
        for _ in range(count):
            rows = torch.stack([text[j : j + 17] for j in torch.randint(3900, (16,))])
            target = rows[:, 1:].flatten()
            yield rows[:, :-1]

    return data(), lambda y: cross_entropy(y.flatten(0, 1), target)


@pytest.mark.parametrize(("factor", "expected"), [(1.12, {"q", "k"}), (1.0, set())])
def test_attention_logits_that_grow_are_seen_at_their_projections(factor, expected):
    model = CharacterTransformer(35, layers=2)
    attention = model.blocks[2].branch

    def grow(_module, _args):
        attention.q.weight.data.mul_(factor)
        attention.k.weight.data.mul_(factor)

    hook = model.register_forward_pre_hook(grow)
    seen, raised = train(model, *characters(), also=["*.branch.q", "*.branch.k"])
    hook.remove()
    assert raised is None
    assert set(noted(seen)) == {("grows", f"blocks.2.branch.{name}") for name in expected}
    if expected:
        assert re.search(r"the output of blocks\.2\.branch\.[qk] grew", repr(seen))


@pytest.mark.parametrize("rate", [0.03, 0.05])
def test_a_learning_rate_too_high_for_post_norm_is_told_by_the_gradient(rate):
    model = CharacterTransformer(35, placement="post")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    seen, _ = train(model, *characters(), optimizer)
    note = next(note for note in seen.notes if note.name == "vanishes")
    assert note.path == "blocks.0.norm_after" and note.fields["end"] == "blocks.11.norm_after"
    assert note.fields["last"] < 1e-3 < note.fields["first"]
    told = repr(seen)
    assert "A learning rate that is too high" in told and re.search(
        r"Meanwhile the input of \S+ grew ×", told
    )


@pytest.mark.parametrize(("placement", "rate"), [("post", 1e-3), ("pre", 1e-3), ("pre", 1e-2)])
def test_learning_rates_that_work_say_nothing(placement, rate):
    model = CharacterTransformer(35, placement=placement)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    seen, raised = train(model, *characters(), optimizer)
    assert raised is None and seen.notes == []


def test_divergence_stops_and_names_what_grew():
    model = CharacterTransformer(35, placement="post")
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    _, raised = train(model, *characters(), optimizer)
    assert raised.step < 20 and raised.direction == "forward"
    assert re.search(r"What grew most: the input of blocks\.\d+\.norm_after, ×\d", str(raised))


def test_a_gamma_without_gradient_is_noted_since_its_step():
    model = perceptron()

    def kill(step, x):
        if step == 20:
            model[4].bias.data.fill_(-100.0)  # behind it, all units of the ReLU are dead
        return x

    seen, _ = train(model, batches(40, kill), loss=lambda y: (y - 1).square().mean())
    assert {(n.name, n.path, n.fields["since"]) for n in seen.notes} == {
        ("silent", "1", 20),
        ("silent", "4", 20),
    }
    assert "The gradient of γ of 4 is 0 since step 20" in repr(seen)  # the nearest to the loss


def test_a_gamma_that_never_had_a_gradient():
    model = nn.ModuleDict({"used": nn.LayerNorm(8), "left": nn.LayerNorm(8)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        for x in batches(12):
            optimizer.zero_grad()
            model["left"](x)
            model["used"](x).square().sum().backward()
            optimizer.step()
    assert noted(seen) == [("always_silent", "left")]


def test_a_gamma_that_shrinks_is_noted_since_its_step():
    model = perceptron()
    data = batches(40, growing(model[4], 0.8))
    seen, _ = train(model, data, loss=lambda y: (y - 1).square().mean())
    (note,) = seen.notes
    assert (note.name, note.path) == ("shrunk", "4") and note.fields["since"] in (21, 31)


# --- Directions -----------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_is_found_at_the_last_layer():
    model = stream()
    _, raised = train(model, batches(5), loss=lambda y: (y * 0).sum().log() * 0)
    assert (raised.step, raised.path, raised.direction) == (1, "5", "backward")
    assert "comes from the loss" in str(raised)


def test_a_gradient_that_breaks_inside_is_found_there():
    model = stream()
    model[3].register_full_backward_hook(lambda _m, grad_in, _out: (grad_in[0] * float("nan"),))
    _, raised = train(model, batches(5))
    assert (raised.path, raised.direction) == ("2.norm", "backward")
    assert "comes from the loss" not in str(raised)


def test_a_parameter_that_an_update_breaks_is_named():
    model = stream()

    def broken(step, x):
        if step == 8:
            model[2].up.weight.data[0, 0] = float("inf")
        return x

    _, raised = train(model, batches(20, broken))
    assert (raised.step, raised.path, raised.direction) == (7, "2.up.weight", "parameter")


def test_what_is_broken_from_the_start_says_so():
    model = stream()
    model[1].norm.weight.data[0] = float("nan")
    _, raised = train(model, batches(3))
    assert (raised.step, raised.path, raised.direction) == (0, "1.norm.weight", "parameter")
    assert "Before the first step" in str(raised)


def test_the_first_step_says_that_nothing_came_before():
    _, raised = train(stream(), batches(3, lambda step, x: x * float("inf")))
    assert raised.step == 1 and "It is the first step" in str(raised)


def test_large_statistics_and_gradients_are_finite():
    seen, raised = train(perceptron(), one_batch(1e12))  # the variance is 1e22, its square inf
    assert raised is None and noted(seen) == [("variance_ruined", "1")]


# --- What a step is -------------------------------------------------------------------------------


def test_accumulation_is_one_step():
    model, data = stream(), batches(40)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model) as seen:
        for _ in range(10):
            optimizer.zero_grad()
            for x in itertools.islice(data, 4):
                square(model(x)).backward()
            optimizer.step()
    assert seen.steps == 10 and [step for step, _ in seen.history["5"]["scale"]] == [*range(1, 11)]


def test_whatever_passes_where_and_when_the_greatest_of_each_place_is_read():
    dtypes = {0: torch.float64, 2: torch.float32, 3: torch.float16}
    passed = reading.Passed(4)
    for step in (1, 2):
        for place, size in ((2, 3), (0, 2), (2, 5), (3, 7)):
            passed.add(place, torch.full((8,), size * step, dtype=dtypes[place]))
        assert passed and passed.order() == (2, 0, 3)
        reading.read(groups := passed.taken("scale"))
        scales = {place: scale for (_, place, _), scale in reading.by_key(groups).items()}
        assert scales == pytest.approx({0: 2 * step, 2: 5 * step, 3: 7 * step}, rel=1e-6)
        assert not passed


def test_two_optimizers_after_one_pass_are_one_step():
    model = stream()
    some, others = itertools.tee(model.parameters())
    pair = (
        torch.optim.SGD([p for p in some if p.ndim == 2], lr=1e-3),
        torch.optim.Adam([p for p in others if p.ndim == 1], lr=1e-3),
    )
    with watch(model) as seen:
        for x in batches(6):
            model.zero_grad()
            square(model(x)).backward()
            for optimizer in pair:
                optimizer.step()
    assert seen.steps == 6


def test_evaluation_another_model_and_passes_without_gradients_do_not_count():
    model, other = perceptron(), perceptron()
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=1e-3) for m in (model, other))
    with watch(model) as seen:
        for x in batches(5):
            for each, optimizer in ((model, ours), (other, theirs)):
                optimizer.zero_grad()
                square(each(x)).backward()
                optimizer.step()
            model.eval()
            square(model(1e6 * x)).backward()
            model.train()
            with torch.no_grad():
                model(x)
    assert seen.steps == 5
    assert max(value for _, value in seen.history["1"]["scale"]) < 10


def test_without_an_optimizer_step_is_called():
    model = stream()
    with watch(model) as seen:
        for x in batches(3):
            square(model(x)).backward()
            for p in model.parameters():
                p.data -= 1e-3 * p.grad
            seen.step()
            model.zero_grad()
    assert seen.steps == 3 and len(seen.history["1.norm"]["gradient"]) == 3


def test_without_steps_the_report_says_what_to_do():
    model = stream()
    with watch(model) as seen:
        for x in batches(3):
            square(model(x)).backward()
    assert noted(seen) == [("no_optimizer", "")] and "call step()" in repr(seen)


def test_a_closure_is_one_step():
    model = stream()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x = torch.randn(64, 8)

    def closure():
        optimizer.zero_grad()
        loss = square(model(x))
        loss.backward()
        return loss

    with watch(model) as seen:
        for _ in range(3):
            optimizer.step(closure)
    assert seen.steps == 3


def test_after_an_update_it_is_not_said_that_there_was_none():
    model = perceptron()
    with pytest.raises(NotFinite) as raised, watch(model) as seen:
        for x in one_batch(float("nan"), at=3):
            square(model(x)).backward()
            seen.step()
    assert raised.value.step == 3 and "has not updated" not in str(raised.value)
    _, stopped = train(perceptron(), one_batch(float("nan"), at=3))
    assert "has not updated" in str(stopped)


def test_every_measures_one_step_in_so_many():
    seen, _ = train(stream(), batches(31), every=10)
    assert seen.steps == 31
    assert [step for step, _ in seen.history["5"]["scale"]] == [1, 11, 21, 31]
    _, raised = train(perceptron(), one_batch(1e25, at=15), every=10)
    assert raised.step == 21 and "since step 12" in str(raised)


# --- Half precision with a scaler -----------------------------------------------------------------


def scaled(model, count, init, fused=False, loss=square, change=lambda step, x: x):
    """Training with a GradScaler, which lowers a scale that is too great once, by very much."""
    scaler = torch.amp.GradScaler("cpu", init_scale=init, backoff_factor=2.0**-100)
    options = {"fused": True} if fused else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **options)
    with watch(model) as seen:
        for x in batches(count, change):
            optimizer.zero_grad()
            scaler.scale(loss(model(x))).backward()
            scaler.step(optimizer)
            scaler.update()
    return seen


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_that_a_scaler_discards_are_counted(fused):
    seen = scaled(stream(), 12, 2.0**127, fused, loss=lambda y: 1000 * square(y))
    assert seen.discarded == 1
    assert fused or seen.steps == 11
    gradients = [value for _, value in seen.history["5"]["gradient"]]
    assert 0 < max(gradients) < 1e4  # without the scale
    assert seen.notes == [] and seen.stopped is None


def test_a_scaler_that_never_finds_its_scale_is_noted():
    def nowhere(y):
        return (y * float("inf")).sum() * 0

    seen = scaled(stream(), 40, 2.0, loss=nowhere)
    assert "discarded" in [note.name for note in seen.notes]
    assert "A GradScaler searches" in repr(seen)


def test_statistics_that_are_damaged_stop_even_where_a_scaler_skips_the_update():
    with pytest.raises(NotFinite) as raised:
        scaled(perceptron(), 40, 2.0, change=lambda step, x: x / 0 if step == 12 else x)
    assert (raised.value.path, raised.value.direction) == ("1", "forward")
    assert "1.running_mean" in str(raised.value)


# --- Nothing changes ------------------------------------------------------------------------------


def hooks(model):
    return [
        len(getattr(module, name))
        for module in model.modules()
        for name in vars(module)
        if name.endswith("_hooks")
    ] + [len(p._post_accumulate_grad_hooks or ()) for p in model.parameters()]


def run(context, model, count=8):
    """What a training run leaves: parameters, buffers, gradients, the state of the generator."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with context:
        for x in batches(count):
            optimizer.zero_grad()
            square(nn.functional.dropout(model(x), 0.5)).backward()
            optimizer.step()
    left = [*model.state_dict().values(), *(p.grad for p in model.parameters())]
    return [tensor.clone() for tensor in left], torch.get_rng_state()


@pytest.mark.parametrize("make", [stream, perceptron])
def test_a_run_that_is_watched_is_the_same_to_the_last_bit(make):
    model = make()
    twin = copy.deepcopy(model)
    (ours, state), (theirs, same) = run(watch(model), model), run(torch.enable_grad(), twin)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert torch.equal(state, same)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, NotFinite])
def test_no_hook_is_left(error):
    from torch.optim import optimizer as module

    model = perceptron()
    before, general = hooks(model), len(module._global_optimizer_pre_hooks)

    def change(step, x):
        if error is KeyboardInterrupt and step == 3:
            raise KeyboardInterrupt
        return x * float("nan") if error is NotFinite and step == 3 else x

    try:
        with watch(model):
            assert hooks(model) != before
            run(torch.enable_grad(), model) if error is None else list(batches(3, change))
            if error is NotFinite:
                square(model(torch.full((4, 8), float("nan")))).backward()
    except (KeyboardInterrupt, NotFinite) as raised:
        assert isinstance(raised, error)
    assert hooks(model) == before
    assert len(module._global_optimizer_pre_hooks) == general
    assert len(module._global_optimizer_post_hooks) == general


def test_contexts_nest_and_a_watch_is_used_once_at_a_time():
    model = stream()
    with watch(model) as outer, watch(model, every=2) as inner:
        run(torch.enable_grad(), model)
        with pytest.raises(RuntimeError, match="in use"), outer:
            pass
    assert outer.steps == inner.steps == 8
    with outer:
        run(torch.enable_grad(), model)
    assert outer.steps == 16


def test_copies_made_inside_are_not_measured(tmp_path):
    model = stream()
    with watch(model) as seen:
        run(torch.enable_grad(), model, 2)
        torch.save(model, tmp_path / "model.pt")
        loaded = torch.load(tmp_path / "model.pt", weights_only=False)
        for other in (copy.deepcopy(model), loaded):
            run(torch.enable_grad(), other, 5)
    assert seen.steps == 2 and not seen.passed


def test_a_history_is_bounded_and_keeps_the_greatest():
    log = history.History(1)
    for step in range(1, 1001):
        row = log.empty()
        row[history.SCALE, 0] = 50.0 if step == 333 else 1.0
        log.add(step, row)
    series = log.series(history.SCALE, 0)
    assert len(series) <= history.SIZE and log.stride == 8
    assert [value for _, value in series].count(50.0) == 1
    assert series[-1][0] == 1000 and log.series(history.GRADIENT, 0) == []


# --- Which layers ---------------------------------------------------------------------------------


class ChannelNorm(nn.Module):
    def forward(self, x):
        return x / x.std()


class PreNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(4), nn.Linear(4, 4)


def test_norms_are_known_by_class_or_name():
    model = nn.ModuleDict(
        {
            "torch": nn.ModuleList([nn.SyncBatchNorm(4), nn.RMSNorm(4), nn.InstanceNorm1d(4)]),
            "ours": nn.ModuleList([normkit.DyT(4), normkit.Derf(4), normkit.GroupNorm(2, 4)]),
            "named": ChannelNorm(),
            "around": PreNorm(),
            "weight": nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            "scores": nn.Linear(4, 4),
        }
    )
    found = [place.path for place in places.followed(model, ["scores"])]
    numbered = [f"{name}.{i}" for name in ("torch", "ours") for i in range(3)]
    assert found == [*numbered, "named", "around.norm", "scores"]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (([nn.LayerNorm(4)],), TypeError, "it got list"),
        ((nn.Linear(4, 4),), ValueError, "no normalisation layer"),
        ((nn.LayerNorm(4), {"also": "*.scores"}), ValueError, r"also='\*.scores' fits"),
        ((nn.LayerNorm(4), {"every": 0}), ValueError, "at least 1; it is 0"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments, error, told):
    with pytest.raises(error, match=told):
        watch(arguments[0], **(arguments[1] if len(arguments) > 1 else {}))


def test_a_softmax_is_measured_where_logits_enter_and_masks_do_not_stop():
    model = nn.Sequential(nn.LayerNorm(4), nn.Identity(), nn.Softmax(-1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def mask(_module, _args, y):
        return 10 * y.masked_fill(torch.tensor([False, False, False, True]), -torch.inf)

    model[1].register_forward_hook(mask)
    with watch(model, also=["2"]) as seen:
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    assert 5 < seen.history["2"]["scale"][0][1] < 10


def test_a_layer_that_is_not_called_is_named():
    model = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        model[0](torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
    assert noted(seen) == [("never_called", "1")]


def test_a_compiled_model_is_measured_if_it_was_not_run_before():
    model = stream()
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model) as seen:
        for x in batches(3):
            optimizer.zero_grad()
            square(compiled(x)).backward()
            optimizer.step()
    assert len(seen.history["5"]["scale"]) == 3 and seen.notes == []


def test_checkpointing_measures_as_well():
    from torch.utils.checkpoint import checkpoint

    model = stream()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for reentrant in (False, True):
        with watch(model) as seen:
            y = model[0](torch.randn(4, 8))
            for part in (*model[1:5], model[5:]):
                y = checkpoint(part, y, use_reentrant=reentrant)
            y.sum().backward()
            optimizer.step()
        assert all(len(each["scale"]) == 1 for each in seen.history.values())


# --- The report -----------------------------------------------------------------------------------


@pytest.fixture
def failed():
    seen, _ = train(perceptron(), one_batch(float("nan")))
    return seen


def test_the_json_is_the_same_in_all_languages(failed):
    found = {speak(language) or failed.to_json() for language in messages.LANGUAGES}
    (only,) = found
    parsed = json.loads(only)
    assert parsed["stopped"] == {"step": 25, "path": "1", "direction": "forward"}
    assert set(parsed["history"]) == {"1", "4"}


def test_the_picture_needs_neither_scripts_nor_colour(failed):
    page = failed._repr_html_()
    ElementTree.fromstring(page)  # well-formed
    assert "<script" not in page and not re.search(r"#[0-9a-f]{3,6}\b|rgb", page)
    assert page.count("<polyline") == 2 and page.count('stroke-width="2.5"') == 1
    assert "<title>" in page


def test_long_tables_say_what_they_leave_out():
    model = nn.Sequential(nn.Linear(8, 16), *(Block() for _ in range(20)))
    seen, _ = train(model, batches(3))
    assert len(report.lines(seen)) == report.LISTED
    assert "Layers not shown: 8." in repr(seen)


def test_paths_are_escaped():
    model = nn.ModuleDict({"<b>": nn.LayerNorm(8)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        model["<b>"](torch.randn(4, 8)).square().sum().backward()
        optimizer.step()
    assert "<b>" not in seen._repr_html_() and "&lt;b&gt;" in seen._repr_html_()


def test_a_line_a_minute_on_stderr(monkeypatch, capsys):
    times = itertools.count(0, 31)
    monkeypatch.setattr(telling, "monotonic", lambda: next(times))
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    seen = watch(stream())
    told = 0.0
    for _ in range(4):  # at 0, 31, 62 and 93 seconds
        told = telling.line_a_minute(seen, told)
    out, err = capsys.readouterr()
    assert out == "" and err.count("step 0: nothing grew") == 1


def said():
    """The messages of the package, as they are extracted for translation."""
    found = extract_from_dir(str(FOLDER), [("**.py", "python")], keywords={"say": None})
    return {message for _, _, message, *_ in found}


@pytest.mark.parametrize("language", messages.LANGUAGES[1:])
def test_every_message_is_translated_with_its_fields(language):
    path = messages.SOURCES / language / "normkit.po"
    known = {m.id: m for m in read_po(path.open("rb")) if m.id}
    for message in said():
        assert message in known and known[message].string, message
        fields = [sorted(re.findall(r"{\w+}", text)) for text in (message, known[message].string)]
        assert fields[0] == fields[1], message
