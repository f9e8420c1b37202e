"""From pure and bounded-range privacy to zero-concentrated privacy, and from there to (eps, delta).

A mechanism is rho-zCDP if D_alpha(P || P') <= rho alpha for all alpha > 1 and all adjacent
inputs, D_alpha the Renyi divergence in nats (Bun and Steinke, 2016). The rho of independent
releases add up.
"""

from __future__ import annotations

import math

from dp_middleware import _validate

_SMALL_RANGE = 1e-3  # below, rho and range^2 / 8 agree to 1e-7 and the difference loses digits
_BISECTIONS = 200


def zcdp_of_pure(epsilon: float) -> float:
    """Returns the smallest rho for every epsilon-DP mechanism: epsilon tanh(epsilon/2).

    Reference:
        Steinke (2024), "Tight RDP & zCDP Bounds from Pure DP", differentialprivacy.org; below
        the epsilon^2 / 2 of Bun and Steinke (2016), Proposition 1.4.

    Guarantee:
        u^alpha is convex, so E_Q[(P/Q)^alpha] is largest where P/Q is e^epsilon or e^-epsilon:
        (alpha - 1) D_alpha <= ln cosh((alpha - 1/2) epsilon) - ln cosh(epsilon / 2). ln cosh(x)
        is concave in x^2 with slope tanh(x) / (2 x), so the difference is at most
        alpha (alpha - 1) epsilon^2 tanh(epsilon/2) / epsilon. Equality for alpha -> 1: binary
        randomised response.

    Args:
        epsilon: Nats, at least 0; may be ``inf``.
    """
    _validate.nonnegative(epsilon=epsilon)
    return epsilon * math.tanh(epsilon / 2)


def zcdp_of_bounded_range(range_: float) -> float:
    """Returns the smallest rho that a range bounds: q - 1 - ln q, q = range / (1 - e^-range).

    The range of a pair is max_y l(y) - min_y l(y), l = ln P(y|x) - ln P(y|x'); at most epsilon
    for the exponential mechanism with weights exp(epsilon u / 2), u in [0, 1].

    Reference:
        Harrison and Manurangsi (2025), arXiv:2510.25746; the value is that of the KL divergence
        in Dong, Durfee and Rogers (2020). At most range^2 / 8 (Cesar and Rogers, 2021), and near
        range - ln(range) - 1 where the range is large.

    Guarantee:
        E_Q[(P/Q)^alpha] is largest where l is t or t - range; over t, with z = range / 2,
        f(x) = ln(sinh(x) / x) and w(x) = x f(x), the largest (alpha - 1) D_alpha is
        [w(alpha z) - w((alpha - 1) z) - w(z)] / z. That is the integral of w'(z + s) - w'(s)
        over s from 0 to (alpha - 1) z, over z. w' = f(x) + x coth(x) - 1 is concave in x^2 (both
        are sums over n of such terms in x^2 / (n pi)^2), so the integrand is at most
        ((z + s)^2 - s^2) w'(z) / z^2: in all alpha (alpha - 1) w'(z), and w'(z) is our rho.

    Args:
        range_: Nats, at least 0; may be ``inf``.
    """
    _validate.nonnegative(range_=range_)
    if math.isinf(range_):
        return math.inf
    if range_ < _SMALL_RANGE:
        return range_ * range_ / 8
    above_one = range_ / -math.expm1(-range_) - 1
    return min(above_one - math.log1p(above_one), range_ * range_ / 8)


def approx_of_zcdp(rho: float, delta: float) -> float:
    """Returns an epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    The smallest rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1/alpha) over
    alpha > 1, never above the rho + 2 sqrt(rho ln(1/delta)) of Bun and Steinke (2016).

    Reference:
        Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
        Section 2.3.

    Guarantee:
        The bound holds at every alpha. Its derivative is rho + ln(alpha delta) / (alpha - 1)^2,
        so the best order is the only root of rho (alpha - 1)^2 + ln(alpha delta).

    Args:
        rho: At least 0; may be ``inf``.
        delta: Probability, above 0 and below 1.
    """
    _validate.nonnegative(rho=rho)
    _validate.probability(delta=delta)
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    low, high = 0.0, math.sqrt(-math.log(delta) / rho)  # of alpha - 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if rho * middle**2 + math.log1p(middle) + math.log(delta) < 0:
            low = middle
        else:
            high = middle
    log_order = math.log1p(high)
    tail = -(log_order + math.log(delta)) / high
    return max(0.0, rho * (1 + high) + tail + math.log(high) - log_order)
