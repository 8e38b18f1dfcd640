"""Gradient descent in an elongated bowl: what the scale of the inputs costs."""

from collections.abc import Sequence

import numpy as np

from normkit.experiments.training import Row


def elongated_bowl(
    seeds: Sequence[int] = (0, 1, 2), examples: int = 500, tolerance: float = 0.01
) -> list[Row]:
    r"""Least squares by gradient descent, with inputs of very different size.

    $$ L(w) = \frac{1}{n} \lVert X w - y \rVert^2, \quad
    w \leftarrow w - \frac{1}{\lambda_{\max}} \frac{1}{n} X^\top (X w - y) $$

    The columns of X are N(5, 1), N(0, 10²), N(-2, 0.1²) and 1; y is the sum of the first three,
    each standardised, and N(0, 1). The inputs are taken raw, centred, scaled (each divided by its
    root mean square) or standardised (both), the column of 1 as it is. Descent starts at 0 and
    ends when the loss is within the tolerance, a fraction, of the least possible.

    Returns a row per inputs and seed: condition, λmax/λmin of XᵀX/n, and steps. No step is taken:
    along the i-th eigenvector the distance from the best w is multiplied by 1 - λᵢ/λmax each
    time, so that the loss after any number of steps is known at once.
    Expect a condition of about 5e4 raw, 1e4 centred, 2.4e3 scaled, and below 1.3 standardised;
    about 1e5 steps raw, and 1 to 3 standardised. Neither half of standardising is enough.
    Source: LeCun, Bottou, Orr & Müller (1998), Efficient BackProp, section 4.3.

    >>> for row in elongated_bowl(seeds=[0]):
    ...     print(f"{row['inputs']:12} {row['condition']:8.1f} {row['steps']:6}")
    raw           45590.9  93794
    centred        8633.0  19827
    scaled         2384.7   5127
    standardised      1.1      1
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, or descent never ends; it is {tolerance}.")
    return [
        {"inputs": name, "seed": seed} | _descend(x, y, tolerance)
        for seed in seeds
        for name, x, y in _problems(seed, examples)
    ]


def _problems(seed, examples):
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(mean, std, examples) for mean, std in ((5, 1), (0, 10), (-2, 0.1))]
    raw = np.stack(drawn, axis=1)
    centred = raw - raw.mean(0)
    versions = {
        "raw": raw,
        "centred": centred,
        "scaled": raw / np.sqrt((raw**2).mean(0)),
        "standardised": centred / centred.std(0),
    }
    y = versions["standardised"].sum(1) + rng.normal(size=examples)
    return [(name, np.column_stack([x, np.ones(examples)]), y) for name, x in versions.items()]


def _descend(x, y, tolerance):
    """The condition of XᵀX/n, and the first step after which the loss is low enough."""
    curvature, directions = np.linalg.eigh(x.T @ x / len(x))
    best = directions.T @ (x.T @ y / len(x)) / curvature
    least = ((x @ directions @ best - y) ** 2).mean()

    def excess(steps):
        left = best * (1 - curvature / curvature[-1]) ** steps
        return curvature @ left**2

    low, high = -1, 1
    while excess(high) > tolerance * least:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) > tolerance * least else (low, middle)
    return {"condition": float(curvature[-1] / curvature[0]), "steps": high}
