"""The secret of a class: drawn once, readable by its owner alone; a seed for each task and use."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from classroom.secret import FILE, secret, seed
from normkit.tutor.judging import differences, trials
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.tasks import every_task, find


def test_a_secret_is_drawn_once_and_stays(tmp_path):
    first = secret(tmp_path)
    assert len(first) == 32 and secret(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_only_its_owner_may_read_it(tmp_path):
    secret(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_two_classes_have_different_secrets(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert secret(tmp_path / "one") != secret(tmp_path / "two")


def test_of_several_that_draw_at_once_one_wins(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(secret, [tmp_path] * 16))) == 1


def test_seeds_differ_by_class_task_and_use():
    seeds = {seed(of, *names) for of in (b"a", b"b") for names in ("xy", "yx", "xx")}
    assert len(seeds) == 6 and seed(b"a", "x", "y") == seed(b"a", "x", "y")
    assert seed(b"a", "xy", "") != seed(b"a", "x", "y")


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(every_task()))
def test_whatever_the_secret_right_programs_pass_and_mistakes_show(name):
    task = find(name)
    known = [(t.program, t.mistakes, t.ways) for t in trials(task, 0) if t.wrong]
    for number in range(3):
        drawn = seed(bytes([number]), name, "secret")
        for program in task.programs:
            seen = observe(combine(program), task, drawn)
            assert not seen.ready_made and not any(differences(seen, task, drawn))
        shown = {(t.program, t.mistakes, t.ways) for t in trials(task, drawn) if t.wrong}
        assert not [mistake for mistake in known if mistake not in shown]
