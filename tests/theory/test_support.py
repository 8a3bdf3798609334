from hypothesis import given
from hypothesis import strategies as st

from bqrl.theory import knapsack_families, knapsack_law, support_experiment, support_growth

weights = st.lists(st.integers(1, 12), min_size=1, max_size=9)


@given(weights)
def test_growth_counts_what_it_says(w):
    growth = support_growth(w)
    for k in range(len(w)):
        law = knapsack_law(w[: k + 1], lattice=False)
        assert growth.horizon[k] == k + 2
        assert growth.histories[k] == 2 ** (k + 1)
        assert growth.support[k] == len(law.sums) <= min(growth.histories[k], growth.lattice[k])


def test_lattice_stays_small_exactly_where_weights_do():
    data = support_experiment(knapsack_families(14))
    assert data["all equal"].lattice[-1] == data["all equal"].support[-1] == 15
    assert data["up to 10"].lattice[-1] < 150 < data["up to 10"].histories[-1] == 2**14
    long = data["of 14 bits"]
    assert long.support[-1] > 0.5 * 2**14  # nearly every history ends at a sum of its own
    assert long.lattice[-1] > long.support[-1]


def test_support_beyond_the_budget_is_left_open():
    growth = support_growth([2**k for k in range(12)], max_atoms=1000)
    assert growth.support[8] == 512
    assert growth.support[9:] == (None, None, None)
