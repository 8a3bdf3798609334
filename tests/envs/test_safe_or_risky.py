"""Safe or risky is the listed kernel."""

from zoo_checks import same_kernel

from bqrl.envs import make


def test_safe_or_risky_is_the_listed_kernel():
    same_kernel(make("SafeOrRisky"), [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.55, 3.0), (0, 1, 0, 1.0 - 0.55, 0.0)], 10, 0)
