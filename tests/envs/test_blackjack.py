"""Blackjack against exact fractions over hands of cards and against Gymnasium's own game."""

from fractions import Fraction
from functools import cache

import gymnasium as gym
import numpy as np
import pytest

import bqrl
from bqrl.envs.blackjack import blackjack, name

CHANCE = {card: Fraction(4 if card == 10 else 1, 13) for card in range(1, 11)}


def total(hand):
    """Sum of a hand (points without the ten of an ace, whether it holds an ace) as the rules count it."""
    points, ace = hand
    return points + 10 if ace and points <= 11 else points


@cache
def dealer(hand):
    """Law of the dealer's last sum, 0 if beyond 21."""
    if total(hand) >= 17:
        return {total(hand) if total(hand) <= 21 else 0: Fraction(1)}
    law = {}
    for card, p in CHANCE.items():
        for end, q in dealer((hand[0] + card, hand[1] or card == 1)).items():
            law[end] = law.get(end, 0) + p * q
    return law


def best(worth):
    """Largest mean of worth(outcome), by recursion over the hands of the player."""

    @cache
    def value(hand, shown):
        mine = total(hand)
        if mine > 21:
            return worth(-1)
        stick = sum(q * worth((mine > theirs) - (mine < theirs)) for theirs, q in dealer((shown, shown == 1)).items())
        hit = sum(p * value((hand[0] + card, hand[1] or card == 1), shown) for card, p in CHANCE.items())
        return max(stick, hit)

    return sum(
        p * q * r * value((one + two, 1 in (one, two)), shown)
        for one, p in CHANCE.items() for two, q in CHANCE.items() for shown, r in CHANCE.items()
    )  # fmt: skip


def test_mean_and_curve_are_those_of_a_recursion_in_fractions():
    mdp, mean = blackjack(), best(Fraction)
    assert bqrl.solve(mdp, bqrl.Mean()).value == pytest.approx(float(mean), abs=1e-12)
    assert float(mean) == pytest.approx(-0.0466, abs=5e-5)
    curve = bqrl.guarantee_curve(mdp)
    loses, not_wins = 1 - best(lambda x: Fraction(x >= 0)), 1 - best(lambda x: Fraction(x >= 1))
    assert (float(loses), float(not_wins)) == pytest.approx((0.475, 0.568), abs=5e-4)  # where the curve steps
    for step, low, high in ((loses, -1.0, 0.0), (not_wins, 0.0, 1.0)):
        assert (curve(float(step) - 1e-6), curve(float(step) + 1e-6)) == (low, high)


def test_gymnasium_plays_the_same_game():
    mdp = blackjack()
    plan = bqrl.solve(mdp, 0.5)
    states = {text: s for s, text in enumerate(mdp.state_names)}
    actions = {"Stick": 0, "Hit": 1}
    env, episodes = gym.make("Blackjack-v1"), 8_000
    returns = np.empty(episodes)
    for t in range(episodes):
        (mine, shown, usable), _ = env.reset(seed=7 if t == 0 else None)
        memory, ended, h, s = plan.policy.start(), False, 0, states[name(int(mine), bool(usable), int(shown))]
        while not ended:
            a = plan.policy.act(h, s, memory)
            (mine, shown, usable), reward, ended, _, _ = env.step(actions[mdp.action_names[a]])
            after = states["over" if ended else name(int(mine), bool(usable), int(shown))]
            memory, h, s = plan.policy.next(memory, h, s, a, reward, after), h + 1, after
        returns[t] = reward
    # Hoeffding: a share of 8,000 games misses its probability by 0.024 with chance below 0.0002.
    for value, p in zip(plan.law.values, plan.law.probabilities, strict=True):
        assert np.mean(returns == value) == pytest.approx(p, abs=0.024)


def test_the_longest_hand_fits():
    mdp = blackjack()
    assert bqrl.solve(blackjack(horizon=25), bqrl.Mean()).value == bqrl.solve(blackjack(), bqrl.Mean()).value
    hit, stick = (mdp.action_names.index(text) for text in ("Hit", "Stick"))
    always = [stick if text == "over" else hit for text in mdp.state_names]
    for H, unfinished in ((20, 0.0), (19, (1 / 13) ** 21)):  # 21 aces in a row
        law = bqrl.evaluate(blackjack(horizon=H), bqrl.MarkovPolicy([always] * H))
        assert 1.0 - law.cdf(-1.0) == pytest.approx(unfinished, abs=1e-15)


def test_a_natural_wins_with_the_rules_of_sutton_and_barto():
    gain = bqrl.solve(blackjack(sab=True), bqrl.Mean()).value - bqrl.solve(blackjack(), bqrl.Mean()).value
    # A natural (probability 2 * 1/13 * 4/13) no longer draws against a dealer's 21 of three or more cards.
    natural = Fraction(8, 169)
    draws = sum(CHANCE[c] * dealer((c, c == 1)).get(21, 0) for c in CHANCE) - natural
    assert gain == pytest.approx(float(natural * draws), abs=1e-12)
