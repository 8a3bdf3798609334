"""The deep sea is the listed kernel with a closed form."""

from zoo_checks import best, same_kernel

from bqrl.envs import make


def test_deep_sea_is_the_listed_kernel_with_a_closed_form():
    rows = []
    for s in range(8):
        gain = 100.0 if s == 7 else 0.0
        rows.append((s, 0, max(s - 1, 0), 1.0, 0.0))
        rows += [(s, 1, min(s + 1, 7), 0.95, gain - 1.0), (s, 1, max(s - 1, 0), 1.0 - 0.95, -1.0)]
    same_kernel(make("DeepSea"), rows, 8, 0)
    assert 1.0 - 0.95**8 < 0.5
    assert best(make("DeepSea"), 0.5) == 92.0
    assert best(make("DeepSea"), 0.33) == 0.0  # eight moves fail with probability 0.337: not worth the cost
