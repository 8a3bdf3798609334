import pytest

from bqrl.study.tune import Rung, Trial, Tuned, halving

VALUES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
RUNGS = ((8, 10), (4, 20), (2, 40))


def drive(values, rungs, gap, tail=lambda value, episodes, seed: 0.0, seeds=(0, 1), size=1.0):
    """The trace, and what was asked for in every rung."""
    asked = []
    search = halving(
        "x",
        values,
        rungs,
        lambda value, episodes: [(value, episodes, seed) for seed in seeds],
        lambda run: (gap(*run), tail(*run)),
        size,
    )
    while True:
        try:
            batch = next(search)
        except StopIteration as end:
            return end.value, asked
        asked.append((batch.phase, [value for value, _, seed in batch.runs if seed == seeds[0]], batch.best))
        assert len(batch.runs) == len(seeds) * len(asked[-1][1])


def test_the_better_half_goes_on_and_the_best_wins():
    tuned, asked = drive(VALUES, RUNGS, lambda v, T, s: abs(v - 8.0) * T + s)
    assert asked == [
        ("tuning 8 of 8 over 10 episodes", list(VALUES), ""),
        ("tuning 4 of 8 over 20 episodes", [1.0, 2.0, 4.0, 8.0], "x = 8 with a gap of 0.5"),
        ("tuning 2 of 8 over 40 episodes", [4.0, 8.0], "x = 8 with a gap of 0.5"),
    ]
    assert tuned.winner.value == 8.0
    assert tuned.edge is None


def test_a_rung_is_judged_by_itself():
    """What leads after 10 episodes need not lead after 40: only the last rung decides between those that are left."""
    tuned, _ = drive(VALUES, RUNGS, lambda v, T, s: v if T < 40 else -v)
    assert [trial.value for trial in tuned.rungs[-1].trials] == [1.0, 2.0]
    assert tuned.winner.value == 2.0


def test_the_mean_over_seeds_ranks():
    gaps = {1.0: (0.0, 10.0), 2.0: (4.0, 4.0)}
    tuned, _ = drive((1.0, 2.0), ((2, 5),), lambda v, T, s: gaps[v][s])
    assert tuned.winner.value == 2.0
    assert tuned.winner.gap == 4.0


def test_ties_go_to_the_higher_tail_then_to_the_smaller_value():
    def noisy(v, T, s):
        return 0.1 + 0.2 if v > 1.0 else 0.3  # equal but for rounding

    tuned, _ = drive((1.0, 2.0, 4.0), ((3, 5),), noisy, lambda v, T, s: 1.0 if v == 4.0 else 0.5)
    assert [trial.value for trial in tuned.rungs[0].ranked()] == [4.0, 1.0, 2.0]


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1.0, 1e9])
def test_ties_are_relative_to_the_size_of_the_returns(size):
    def gap(v, T, s):
        return size * (0.3 if v == 2.0 else 0.1 + 0.2 if v == 1.0 else 0.31)  # 1 and 2 are equal but for rounding

    tuned, _ = drive((1.0, 2.0, 4.0), ((3, 5),), gap, lambda v, T, s: size * v, size=size)
    assert [trial.value for trial in tuned.rungs[0].ranked()] == [2.0, 1.0, 4.0]
    flat, _ = drive((2.0, 1.0, 4.0), ((3, 5),), gap, lambda v, T, s: size * v, size=size)
    steep, _ = drive((2.0, 4.0), ((2, 5),), gap, size=size)
    assert (flat.edge, steep.edge) == (("lowest", True), ("lowest", False))


@pytest.mark.parametrize(("best", "edge"), [(1.0, "lowest"), (128.0, "highest"), (16.0, None)])
def test_a_winner_at_an_edge_is_named(best, edge):
    tuned, _ = drive(VALUES, RUNGS, lambda v, T, s: abs(v - best) + 0.01 * s)
    assert tuned.edge == (None if edge is None else (edge, False))
    assert (f"the {edge} value of the grid" if edge else "inside the grid: x = 16") in tuned.verdict()


def test_flat_at_an_edge_means_that_the_neighbour_did_as_well():
    same, _ = drive(VALUES, RUNGS, lambda v, T, s: max(v, 4.0))
    assert same.edge == ("lowest", True)
    noise = {1.0: (3.0, 5.0, 4.0), 2.0: (5.5, 2.5, 4.2)}
    near, _ = drive((1.0, 2.0, 4.0), ((3, 5),), lambda v, T, s: noise.get(v, (9.0, 9.0, 9.0))[s], seeds=(0, 1, 2))
    assert near.edge == ("lowest", True)


def test_flatness_is_unknown_where_the_two_never_met():
    trials = Trial(place=0, value=1.0, scores=((1.0, 0.0),)), Trial(place=2, value=4.0, scores=((2.0, 0.0),))
    tuned = Tuned(parameter="x", values=(1.0, 2.0, 4.0), rungs=(Rung(episodes=5, trials=trials),))
    assert tuned.edge == ("lowest", None)
    assert "dropped before they could be compared" in tuned.verdict()
