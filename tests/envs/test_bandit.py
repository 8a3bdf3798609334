"""The bandit is the listed kernel."""

from zoo_checks import best, same_kernel

from bqrl.envs import make


def test_bandit_is_the_listed_kernel():
    rows = [(0, 0, 0, 1.0, 4.0)]
    for a, p in enumerate((0.5, 0.62, 0.45, 0.55), start=1):
        rows += [(0, a, 0, p, 8.0), (0, a, 0, 1.0 - p, 1.0)]
    same_kernel(make("Bandit"), rows, 1, 0)
    assert [best(make("Bandit"), tau) for tau in (0.37, 0.39)] == [4.0, 8.0]
