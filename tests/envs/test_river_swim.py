"""The river is the listed kernel."""

from zoo_checks import same_kernel

from bqrl.envs import make


def test_river_swim_is_the_listed_kernel():
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.4, 0.0), (0, 1, 1, 0.6, 0.0)]
    for s in range(1, 5):
        rows += [(s, 0, s - 1, 1.0, 0.0)]
        rows += [(s, 1, s - 1, 0.05, 0.0), (s, 1, s, 0.6, 0.0), (s, 1, s + 1, 0.35, 0.0)]
    rows += [(5, 0, 4, 1.0, 0.0), (5, 1, 4, 0.4, 50.0), (5, 1, 5, 0.6, 50.0)]
    same_kernel(make("RiverSwim"), rows, 20, 0)
