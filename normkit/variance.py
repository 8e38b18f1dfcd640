"""The variance without loss of digits: in two passes, in one (Welford), or merged (Chan).

All run along axis 0 and compute in at least float32.

>>> import numpy as np
>>> x = (np.random.default_rng(0).normal(size=1024) + 1e4).astype(np.float32)
>>> round(float(two_pass(x)), 3), bool(abs(one_pass(x) - two_pass(x)) > 0.5)
(0.945, True)
"""

from typing import Generic, NamedTuple

from normkit._arrays import mean_over, namespace, widen
from normkit.typing import A


class Moments(NamedTuple, Generic[A]):
    """What is to be known of n values: their mean, and the sum M2 of squared distances from it."""

    n: int
    mean: A
    m2: A

    def variance(self, correction: int = 0) -> A:
        """M2/n, or with correction=1 the unbiased M2/(n - 1)."""
        _check_count(self.n, correction)
        return self.m2 / (self.n - correction)


def moments(x: A) -> Moments[A]:
    r"""The moments of the values x[0], x[1], …, in two passes.

    $$ \mu = \frac{1}{n} \sum x_i, \quad M_2 = \sum (x_i - \mu)^2 $$

    x: (n, ...), n may be 0. Raises TypeError for lists, ValueError for a single number.

    See: why-variance in book/why.md; tests/normkit/test_variance.py.
    """
    xp = namespace(x=x)
    x = _values(xp, x)
    if x.shape[0] == 0:
        return _nothing(xp, x)
    mean = xp.mean(x, axis=0)
    return Moments(x.shape[0], mean, xp.sum((x - mean) ** 2, axis=0))


def two_pass(x: A) -> A:
    """The biased variance: first the mean, then the mean of the squared distances from it.

    See: why-variance in book/why.md; tests/normkit/test_variance.py.
    """
    return moments(x).variance()


def one_pass(x: A) -> A:
    r"""The counter-example: right on paper, and without digits as soon as the mean is large.

    $$ \sigma^2 = \overline{x^2} - \bar x^2 $$

    Both terms are about μ², so the difference carries an error of about μ² times the machine
    epsilon: it may exceed σ², and even be negative.

    See: why-variance in book/why.md; tests/normkit/test_variance.py.
    """
    xp = namespace(x=x)
    x = _values(xp, x)
    _check_count(x.shape[0], 0)
    return (mean_over(xp, x * x, 0) - mean_over(xp, x, 0) ** 2)[0]


def welford(x: A) -> Moments[A]:
    r"""The moments, seeing each value once and keeping none.

    $$ \mu_k = \mu_{k-1} + \frac{x_k - \mu_{k-1}}{k}, \quad
    M_{2,k} = M_{2,k-1} + (x_k - \mu_{k-1})(x_k - \mu_k) $$

    x: (n, ...), n may be 0. Raises TypeError for lists, ValueError for a single number.
    Source: Welford (1962), Note on a method for calculating corrected sums of squares.

    See: why-variance in book/why.md; tests/normkit/test_variance.py.

    >>> import numpy as np
    >>> seen = welford(np.array([0.0, 2.0, 4.0, 6.0]))
    >>> float(seen.variance()), round(float(seen.variance(correction=1)), 4)
    (5.0, 6.6667)
    """
    xp = namespace(x=x)
    x = _values(xp, x)
    n, mean, m2 = _nothing(xp, x)
    for i in range(x.shape[0]):
        value, n = x[i, ...], n + 1
        before = value - mean
        mean = mean + before / n
        m2 = m2 + before * (value - mean)
    return Moments(n, mean, m2)


def merge(a: Moments[A], b: Moments[A]) -> Moments[A]:
    r"""The moments of two sets of values together, from those of each.

    $$ \mu = \mu_a + \delta\, \frac{n_b}{n}, \quad
    M_2 = M_{2,a} + M_{2,b} + \delta^2\, \frac{n_a n_b}{n}, \quad \delta = \mu_b - \mu_a $$

    One of them may be empty. With a single value in b, it is a step of `welford`.
    Raises TypeError for what is no Moments or of two libraries, ValueError for two shapes.
    Source: Chan, Golub & LeVeque (1979), Updating formulae and a pairwise algorithm for
    computing sample variances.

    See: why-variance in book/why.md; tests/normkit/test_variance.py.

    >>> import numpy as np
    >>> x = np.array([1.0, 3.0, 5.0, 7.0])
    >>> both = merge(moments(x[:1]), moments(x[1:]))
    >>> both.n, float(both.mean), float(both.variance())
    (4, 4.0, 5.0)
    """
    _check_moments(a, b)
    n = a.n + b.n
    if n == 0:
        return a
    delta, share = b.mean - a.mean, b.n / n
    mean = a.mean + delta * share
    return Moments(n, mean, a.m2 + b.m2 + delta * delta * (a.n * share))


def _check_count(n, correction):
    if n <= correction:
        raise ValueError(
            f"The variance divides by n - {correction}, so it needs more than {correction} "
            f"values; there are {n}."
        )


def _check_moments(a, b):
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, Moments):
            raise TypeError(
                f"{name} must be Moments, not a {type(value).__name__}: merge(moments(x), "
                f"moments(y)) for two arrays of values."
            )
    namespace(a=a.mean, b=b.mean)
    if a.mean.shape != b.mean.shape:
        raise ValueError(
            f"The values of both must have the same shape; those of a have {tuple(a.mean.shape)}, "
            f"those of b {tuple(b.mean.shape)}. Only axis 0 of x, over which the moments run, may "
            f"differ."
        )


def _values(xp, x):
    if x.ndim == 0:
        raise ValueError("x must have an axis 0, the values; it is a single number.")
    return widen(xp, x)


def _nothing(xp, x):
    """The moments of no values: what merges with anything without effect."""
    shaped = xp.sum(x, axis=0)
    return Moments(0, xp.zeros_like(shaped), xp.zeros_like(shaped))
