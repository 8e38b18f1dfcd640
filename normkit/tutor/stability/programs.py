"""The variance without loss of digits: the right programs, as the chapter prints them."""

import numpy as np

from normkit.tutor.programs import program


@program
def two_pass(x):
    mean = x.mean(axis=0)
    deviations = x - mean
    squares = deviations**2
    var = squares.mean(axis=0)
    return var


@program
def half_precision(x):
    x = x.astype(np.result_type(x, np.float32))
    mean = x.mean(axis=0)
    deviations = x - mean
    squares = deviations**2
    var = squares.mean(axis=0)
    return var


@program
def welford(x):
    n, mean, m2 = 0, 0.0, 0.0
    for value in x:
        n = n + 1
        before = value - mean
        mean = mean + before / n
        after = value - mean
        m2 = m2 + before * after
    return n, mean, m2


@program
def merge(a, b):
    n = a.n + b.n
    if n == 0:
        return a
    delta = b.mean - a.mean
    mean = a.mean + delta * b.n / n
    within = a.m2 + b.m2
    between = delta**2 * a.n * b.n / n
    m2 = within + between
    return n, mean, m2


@program
def first_failure(variance, numbers, offsets):
    for offset in offsets:
        shifted = numbers + offset
        found = variance(shifted)
        right = np.var(shifted.astype(float))
        error = abs(found - right) / right
        if not error <= 0.1:  # a nan fails
            return offset
    return np.inf


@program
def variance_predictions():
    predictions = {}
    predictions["near"] = True
    predictions["far"] = False
    predictions["double"] = True
    predictions["double_far"] = False
    predictions["spread"] = True
    predictions["narrow"] = False
    predictions["two_passes"] = True
    predictions["half"] = False
    return predictions
