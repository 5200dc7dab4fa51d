#!/usr/bin/env python3
"""Prints the polynomial coefficients of plugins/inductor/vector_math_*.cpp and codegen/blocks.

Problem: for a function f, a weight w and powers p_i, find c_i that minimise
max |w(x) (f(x) - sum c_i x^p_i)| over an interval, with c_i that are float or double numbers.
Method: Remez exchange in 50-digit arithmetic on a dense grid: solve for equal errors of changing
sign at n + 1 points, move the points to the extrema of the error, repeat. Then the coefficient
that matters most is rounded and held, and the rest is fitted again, until all are rounded.
Cost: three minutes in all. Needs mpmath:  python3 tools/fit_math.py [name ...]
"""
import struct
import sys
from math import frexp, ldexp

from mpmath import (asin, atan, chebyfit, cos, erf, erfc, exp, inf, log, log1p, lu_solve, matrix, mp, mpf, pi,
                    sin, sqrt, tanh)

mp.dps = 60
GRID = 1500


def nodes(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count))
            for i in range(count)]


def extrema(errors, wanted):
    """Indices of the largest error between changes of sign; the ends are dropped first."""
    picked = []
    for i, error in enumerate(errors):
        if picked and (errors[picked[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[picked[-1]]):
                picked[-1] = i
        else:
            picked.append(i)
    while len(picked) > wanted:
        picked.pop(0 if abs(errors[picked[0]]) < abs(errors[picked[-1]]) else -1)
    return picked


def remez(grid, values, weights, powers):
    """Coefficients and the greatest weighted error on the grid."""
    count = len(powers)
    picked = [round((i + 0.5) * (len(grid) - 1) / (count + 1)) for i in range(count + 1)]
    best = (None, inf)
    for _ in range(30):
        rows = [[grid[j] ** p for p in powers] + [(-1) ** n / weights[j]]
                for n, j in enumerate(picked)]
        solution = lu_solve(matrix(rows), matrix([values[j] for j in picked]))
        coefficients = list(solution)[:count]
        errors = [(v - sum(c * x ** p for c, p in zip(coefficients, powers))) * w
                  for x, v, w in zip(grid, values, weights)]
        worst = max(abs(e) for e in errors)
        if worst < best[1]:
            best = (coefficients, worst)
        picked = extrema(errors, count + 1)
        if len(picked) <= count or worst < abs(solution[count]) * mpf("1.001"):
            break
    return best


def to_float(x, power=0):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def to_double(x, power=0):
    return mpf(float(x))


def to_upper_half(x, power):
    """A double whose lower 32 bits are 0, but for the terms that matter most."""
    mantissa, exponent = frexp(float(x))
    return mpf(float(x) if power < 2 else ldexp(round(ldexp(mantissa, 21)), exponent - 21))


def fit(f, weight, low, high, count, rounding):
    """Rounded coefficients of powers 0 .. count - 1, and the greatest weighted error."""
    grid = nodes(mpf(low), mpf(high), GRID)
    values = [f(x) for x in grid]
    weights = [weight(x) for x in grid]
    rest, held = list(values), {}
    reach = max(abs(mpf(low)), abs(mpf(high)))
    while len(held) < count:
        powers = [p for p in range(count) if p not in held]
        found, _ = remez(grid, rest, weights, powers)
        first = max(range(len(powers)), key=lambda i: abs(found[i]) * reach ** powers[i])
        power = powers[first]
        held[power] = rounding(found[first], power)
        rest = [v - held[power] * x ** power for v, x in zip(rest, grid)]
    return [held[p] for p in range(count)], max(abs(r * w) for r, w in zip(rest, weights))


def root(z, of_one, of_root):
    """A function of sqrt(z) at 0, where the quotient has no value, and elsewhere."""
    return of_one if z == 0 else of_root(sqrt(z))


LN2_HALF = log(2) / 2 * mpf("1.0002")


def erfcx_argument(t):
    """a of t = (a - 2) / (a + 2)."""
    return 2 * (1 + t) / (1 - t)


def scaled_erfc(t):
    a = erfcx_argument(t)
    return exp(a * a) * erfc(a) * (1 + 2 * a)


# name: (function, weight, low, high, number of coefficients, rounding)
FITS = {
    # exp(r) = 1 + r + r r q(r)
    "exp_f32": (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r),
                -LN2_HALF, LN2_HALF, 5, to_float),
    "exp_wide": (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r),
                 -LN2_HALF, LN2_HALF, 7, to_double),
    "exp_f64": (lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r),
                -LN2_HALF, LN2_HALF, 10, to_double),
    # 2^r = 1 + r q(r)
    "exp2_f32": (lambda r: (2**r - 1) / r, lambda r: r / 2**r, -0.5, 0.5, 6, to_float),
    # log(1 + f) = f - f f / 2 + f f f q(f)
    "log_f32": (lambda f: (log1p(f) - f + f * f / 2) / f**3, lambda f: f**3 / log1p(f),
                -0.25, 0.5, 9, to_float),
    # log(1 + f) = f + f f q(f)
    "log_wide": (lambda f: (log1p(f) - f) / f**2, lambda f: f**2 / log1p(f),
                 -0.25, 0.5, 14, to_double),
    # the same for normal numbers, to be doubled (with GRID = 700); their sines and cosines are as below
    "log_normal": (lambda f: (log1p(f) - f) / f**2, lambda f: f**2 / log1p(f),
                   -0.2929, 0.4143, 10, to_upper_half),
    "sin_normal": (lambda z: root(z, pi / 2, lambda y: sin(pi / 2 * y) / y), lambda z: 1,
                   0, 0.25, 5, to_upper_half),
    "cos_normal": (lambda z: cos(pi / 2 * sqrt(z)), lambda z: 1 / cos(pi / 2 * sqrt(z)),
                   0, 0.25, 5, to_upper_half),
    # log(1 + f) = 2 s + 2 s^3 q(s s), s = f / (2 + f)
    "log_f64": (lambda z: root(z, 0, lambda s: (log((1 + s) / (1 - s)) / (2 * s) - 1) / z),
                lambda z: z, 1e-6, 0.0401, 7, to_double),
    # erf(x) = x + x q(x x)
    "erf_near_f32": (lambda z: root(z, 0, lambda x: erf(x) / x - 1),
                     lambda z: root(z, 1, lambda x: x / erf(x)), 1e-9, 0.865, 6, to_float),
    # erfc(x) = 2^q(x); as 1 - erfc(x) is wanted, the error may grow as erfc shrinks
    "erf_far_f32": (lambda x: log(erfc(x), 2), lambda x: erfc(x) / erf(x) * log(2),
                    0.93, 3.93, 6, to_float),
    "erf_near_f64": (lambda z: root(z, 0, lambda x: erf(x) / x - 1),
                     lambda z: root(z, 1, lambda x: x / erf(x)), 1e-9, 0.811, 12, to_double),
    # erfc(a) = exp(-a a) q((a - 3.4) / 2.5), the same
    "erf_far_f64": (lambda t: exp((3.4 + 2.5 * t)**2) * erfc(3.4 + 2.5 * t),
                    lambda t: exp(-(3.4 + 2.5 * t)**2) / erf(3.4 + 2.5 * t),
                    -1, 1.016, 23, to_double),
    # tanh(x) = x + x x x q(x x)
    "tanh_near_f32": (lambda z: root(z, 0, lambda x: (tanh(x) / x - 1) / z),
                      lambda z: z, 1e-6, 0.3907, 6, to_float),
    # sin(pi/2 y) = y q(y y), cos(pi/2 y) = q(y y)
    "sin_wide": (lambda z: root(z, 0, lambda y: sin(pi / 2 * y) / y), lambda z: 1,
                 1e-9, 0.2501, 6, to_double),
    "cos_wide": (lambda z: cos(pi / 2 * sqrt(z)), lambda z: 1, 0, 0.2501, 6, to_double),
    # asin(x) = x q(x x), atan(x) = x q(x x)
    "asin_wide": (lambda z: root(z, 0, lambda x: asin(x) / x), lambda z: 1,
                  1e-9, 0.25, 10, to_double),
    "atan_wide": (lambda z: root(z, 0, lambda x: atan(x) / x), lambda z: 1,
                  1e-9, 1, 14, to_double),
    # erfc(a) = exp(-a a) / (1 + 2 a) q((a - 2) / (a + 2))
    "erfc_wide": (scaled_erfc, lambda t: 1 / scaled_erfc(t), -1, 0.68, 14, to_double),
}


def two_over_pi(low):
    """2 / pi in two doubles, less what makes multiples of 4 of floats of 2^low and above."""
    whole = mpf(2) ** (2 - (low - 23))
    rest = 2 / pi - int(2 / pi / whole) * whole
    high = to_double(rest)
    return [high, to_double(rest - high)]


def tanh_pieces():
    """tanh in quarters of octaves from 2^-3 to 2^5, by the last five bits of a float's first eleven:
    the middle of each, and coefficients of powers 0 .. 5; the first piece serves 0 .. 2^-3, too."""
    pieces = [None] * 32
    for j in range(32):
        octave = mpf(2) ** (j // 4 - 3)
        low, high = octave * (4 + j % 4) / 4, octave * (5 + j % 4) / 4
        middle = (low + high) / 2
        if j == 0:
            odd = chebyfit(lambda z: root(z, -mpf(1) / 3, lambda x: (tanh(x) / x - 1) / z),
                           [0, high**2], 2)
            piece = [0, 0, 1, 0, odd[1], 0, odd[0]]
        elif low >= 10:
            piece = [low, 1, 0, 0, 0, 0, 0]
        else:
            terms = chebyfit(lambda y: tanh(middle + y), [low - middle, high - middle], 6)
            piece = [middle] + terms[::-1]
        pieces[(16 + j) % 32] = piece
    return zip(*pieces)


def main():
    if "tanh_pieces" in sys.argv:
        for numbers in tanh_pieces():
            print("{" + ", ".join(f"{float(to_float(x)):.9g}" for x in numbers) + "}")
        return
    if not sys.argv[1:]:
        for low in (50, 76, 102):
            pair = ", ".join(float(c).hex() for c in two_over_pi(low))
            print(f"// two_over_pi, floats of 2^{low} and above\n{{{pair}}}")
    for name in sys.argv[1:] or FITS:
        coefficients, error = fit(*FITS[name])
        if FITS[name][-1] is to_float:
            texts = [f"{float(c):.9g}" for c in coefficients]
        else:
            texts = [float(c).hex() for c in coefficients]
        print(f"// {name}: relative error {float(error):.2g}\n{{{', '.join(texts)}}}", flush=True)


if __name__ == "__main__":
    main()
