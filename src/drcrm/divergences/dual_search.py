"""The dual of a ball of a smooth φ-divergence: inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ).

Its minimum has the density t_i = φ*'((z_i − c)/γ) with Σ share t = 1 and Σ share φ(t) = ε. With (z − c)/γ = a + bz and
0 the largest z, the first holds at one a = φ'(t of the largest z) for every b, and the divergence then grows with b:
two searches, one in the other.
"""

import numpy as np

LOWEST, HIGHEST = -700.0, 690.0  # log b
PATIENCE = 50  # rounds after which a bracket is halved
EVEN = 1e-13  # by which Σ share t may miss 1 before it is divided by
ROUNDED = 1e-17  # times the number of t, by which more it may where no step brings it nearer: the sum's rounding
NEAR = 1e-6  # a step of log b, relative, whose square is nothing


def balance_at_radius(
    divergence, radius: float, z: np.ndarray, share: np.ndarray, guess: tuple[float, float] | None = None
) -> tuple[np.ndarray, float, float, tuple[float, float]]:
    """Return t, a and b, and where a search with similar z may start.

    log D is nearly linear in log b while b is small: Newton's steps, inside a bracket, which is halved where they do
    not bring D nearer, or after 50.

    Parameters
    ----------
    divergence : SmoothDivergence
    radius : float ≥ 0
        Less than D of the largest z alone.
    z : array (n,)
        Between −1 and 0; both occur.
    share : array (n,)
        Positive, with sum 1.
    guess : (float, float), optional
        log(b · deviation of z), and t of the largest z; by default what is right for small radii.
    """
    mean = share @ z
    unit = 0.5 * np.log(share @ (z - mean) ** 2)
    most = 1 / share[z == 0].sum()  # t of the largest z where they have all mass
    log_b, top = (0.5 * np.log(2 * divergence.curvature * radius), None) if guess is None else guess
    log_b = np.clip(log_b - unit, LOWEST, HIGHEST)
    if top is None:
        top = divergence.density(1.0, -np.exp(log_b) * mean)[0]
    low, high, miss, rounds, is_last = LOWEST, HIGHEST, np.inf, 0, False
    while True:
        rounds += 1
        b = np.exp(log_b)
        top, density, slope = _balance(divergence, top, b, z, share, most)
        if is_last:
            break
        weight = share * slope
        centre = weight @ z / weight.sum()
        distance = share @ divergence.phi(density)
        growth = b * b * (weight @ (z - centre) ** 2)
        low, high = (low, log_b) if distance > radius else (log_b, high)
        last, miss = miss, np.log(radius / distance)
        step = np.clip(miss * distance / growth, -4, 4)
        is_last = abs(step) < NEAR and abs(miss) < NEAR
        following = log_b + step
        slow = rounds > PATIENCE or (low > LOWEST and high < HIGHEST and abs(miss) > abs(last) / 2)
        if not is_last and (slow or not low < following < high):
            following = (low + high) / 2
        if (not is_last and following in (low, high)) or not following > LOWEST:
            break
        moved = divergence.density(top, 0.0)[1] * centre * (b - np.exp(following))
        top, log_b = top + (moved if np.isfinite(moved) else 0), following
    return density / (share @ density), divergence.slope(top), b, (log_b + unit, top)


def _balance(
    divergence, top: float, b: float, z: np.ndarray, share: np.ndarray, most: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the t of the largest z, near a given one, at which Σ share t = 1, and all t, and their slopes φ*''.

    The sum is nearly linear in that t: Newton's steps, in the same way.
    """
    low, high, excess, rounds = 1.0, most, np.inf, 0
    top = low if np.isnan(top) else min(max(top, low), high)
    drop = b * z
    while True:
        rounds += 1
        density, slope = divergence.density(top, drop)
        last, excess = excess, share @ density - 1
        if excess > 0:
            high = top
        else:
            low = top
        following = top - excess * divergence.density(top, 0.0)[1] / (share @ slope)
        if not low < following < high or abs(excess) > abs(last) / 2 or rounds > PATIENCE:
            following = np.sqrt(low * high)
        if abs(excess) <= EVEN or abs(last) / 2 < abs(excess) <= EVEN + ROUNDED * len(z):
            return top, density, slope
        if following in (low, high, top):
            # φ* bends so much that neighbouring floats lie to both sides: what is between them.
            below, above = (divergence.density(each, drop)[0] for each in (low, high))
            part = (1 - share @ below) / (share @ above - share @ below)
            mixed = below + min(max(part, 0), 1) * (above - below)
            return top, mixed if np.isfinite(mixed).all() else density, slope
        top = following
