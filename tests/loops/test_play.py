import numpy as np
import pytest
from learner_problems import episodes, uniform_play

from bqrl.envs import make
from bqrl.learners.play import ModelWorld
from bqrl.learners.protocol import with_events

PROBLEMS = [
    make("Inventory", shared=True, capacity=3),
    make("AssetSelling", shared=True),
    make("Staffing", shared=True),
]


@pytest.mark.parametrize("mdp", PROBLEMS)
def test_events_lead_to_what_happened_and_rows_without_a_law_have_none(mdp):
    for episode in episodes(mdp, 50):
        for h in range(mdp.H):
            s, a = int(episode.states[h]), int(episode.actions[h])
            q = mdp.noise.row(h, s, a)
            if mdp.noise.row_law.reshape(-1)[q] < 0:
                assert episode.events[h] == -1
            else:
                successors, _, rewards = mdp.outcomes(h, s, a)
                i = mdp.noise.outcome_of(q)[episode.events[h]]
                assert (successors[i], rewards[i]) == (episode.states[h + 1], episode.rewards[h])


def test_events_have_their_law_in_rows_that_do_not_separate_them():
    mdp = PROBLEMS[0]
    found = np.zeros(len(mdp.noise.events[0]))
    for episode in episodes(mdp, 4000):
        for h in range(mdp.H):
            if not mdp.noise.reveals(mdp.noise.row(h, int(episode.states[h]), int(episode.actions[h]))):
                found[episode.events[h]] += episode.events[h] >= 0
    p, n = mdp.noise.probabilities[0], found.sum()
    assert np.all(np.abs(found / n - p) < 4 * np.sqrt(p * (1 - p) / n) + 1 / n)


@pytest.mark.parametrize("mdp", PROBLEMS)
def test_states_and_rewards_do_not_depend_on_what_is_shared(mdp):
    plain, observed, hidden = (episodes(twin, 20, 3) for twin in (mdp.with_noise(None), mdp, with_events(mdp, False)))
    for one, two, three in zip(plain, observed, hidden, strict=True):
        assert one.events.size == three.events.size == 0
        for a, b, c in zip(one[:3], two[:3], three[:3], strict=True):
            assert a.tobytes() == b.tobytes() == c.tobytes()


def test_episodes_are_independent_records():
    world = ModelWorld(PROBLEMS[0], np.random.default_rng(0))
    first = world.play(uniform_play(PROBLEMS[0]), np.random.default_rng(1))
    events = first.events.copy()
    world.play(uniform_play(PROBLEMS[0]), np.random.default_rng(2))
    assert np.array_equal(first.events, events)
