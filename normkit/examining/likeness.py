"""Which mistake of the course's catalogue a norm of unknown class behaves like, if any."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from normkit.examining.probes import called, neutral
from normkit.examining.sites import Site

PROGRAMS = "layer_norm/layer_norm", "rms_norm/rms_norm"
# right for other purposes: a vector of unit length, values between 0 and 1, Gemma's 1 + weight
MEANT = {"unit_length", "min_max_scaling", "squares_summed", "one_plus_gamma"}
NEAR = 1e-5


def mistake(site: Site) -> Any | None:
    """Return the mistake whose program gives what the norm gives; None if the norm is right."""
    try:
        from normkit.tutor.mistakes import combine, mistakes_of
    except ModuleNotFoundError:  # a package without the tutor
        return None
    if site.sample is None or not site.sample.is_alone or len(site.sample.shape) < 2:
        return None
    x, y = _seen(site)
    for program in PROGRAMS:
        if _near(combine(program), x, y, site.eps):
            return None
    for program in PROGRAMS:
        for each in mistakes_of(program):
            if each.name not in MEANT and _near(combine(program, each), x, y, site.eps):
                return each
    return None


def _seen(site: Site) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with a mean, and what the neutral norm makes of them."""
    random = np.random.default_rng(0)
    x = 7 * random.standard_normal((3, *site.sample.shape[1:])) + 4 if site.sample else np.zeros(0)
    with torch.no_grad():
        return x, called(neutral(site.module).eval(), torch.from_numpy(x)).numpy()


def _near(program: Any, x: np.ndarray, y: np.ndarray, eps: float | None) -> bool:
    gain = np.ones(x.shape[-1])
    shift = [np.zeros(x.shape[-1])] if "beta" in program.__code__.co_varnames else []
    try:
        with np.errstate(all="ignore"):
            came = program(x.copy(), gain, *shift, eps=eps or 0.0)
    except Exception:  # a mistake that stops at this shape
        return False
    same = isinstance(came, np.ndarray) and came.shape == y.shape
    return same and bool(np.abs(came - y).max() < NEAR * (1 + np.abs(y).max()))


def message(name: str) -> str:
    """What the catalogue says of a mistake, in English; "" if it knows none of this name."""
    return next((each.message for each in _all() if each.name == name), "")


def names() -> set[str]:
    """How the catalogue calls its mistakes."""
    return {each.name for each in _all()}


def _all() -> Iterator[Any]:
    try:
        from normkit.tutor.mistakes import mistakes_of
    except ModuleNotFoundError:  # a package without the tutor
        return
    for program in PROGRAMS:
        yield from mistakes_of(program)
