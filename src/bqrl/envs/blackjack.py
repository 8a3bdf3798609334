"""Blackjack as Gymnasium plays it: take cards up to 21, then the dealer plays.

Cards come from an infinite deck: ace, 2 to 9, and 10 with weight 4. The player sees one card of the dealer and hits or
sticks; an ace counts 11 while that does not exceed 21. Beyond 21 the player loses 1. After the player sticks, the dealer
draws up to 17 or more, standing on a soft 17, and the higher sum wins 1; equal sums return 0. A natural (21 with two cards)
is an ordinary 21: these are the defaults of Blackjack-v1 in Gymnasium (Towers and others 2024, "Gymnasium: a standard
interface for reinforcement learning environments"), `natural=False` and `sab=False`. With `sab=True` a natural of the player
beats any other hand of the dealer, as in Sutton and Barto (2018, "Reinforcement learning: an introduction", Example 5.1). The
law of the last reward contains the dealer's play exactly.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from bqrl.checks import flag, whole
from bqrl.mdp.model import MDP

UNIT, STAGE = "bets", "card"
CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}  # 1 is the ace
LONGEST = 20  # decisions of the longest hand: two aces, 19 more of them, then stick or bust
OVER = "over"
Hand = tuple[int, bool]  # sum, with an ace counted as 11 if usable


def blackjack(horizon: int = LONGEST, sab: bool = False) -> MDP:
    """Return the game; its return is 1, 0 or -1.

    Parameters
    ----------
    horizon : int
        Largest number of decisions; hands that need more are abandoned with a return of 0. The default suffices for all.
    sab : bool
        Whether a natural of the player wins against every hand of the dealer but a natural.

    Returns
    -------
    MDP

    Examples
    --------
    >>> blackjack()
    MDP(H=20, S=281, A=2, start=law over 270 states, 2991 transitions, stationary)
    """
    sab = flag(sab, "sab")
    whole(horizon, "horizon", 1)
    rows = list[tuple[str, str, str, float, float]]()
    start: dict[str, float] = defaultdict(float)
    for shown, p in CARDS.items():
        for natural in (False, True):
            dealer = finals(add((0, False), shown), 1)
            for total in range(4, 22):
                for usable in (False, True):
                    if (usable and total < 12) or (natural and not (sab and total == 21 and usable)):
                        continue
                    here = name(total, usable, shown, natural)
                    outcome: dict[tuple[str, float], float] = defaultdict(float)
                    for card, q in CARDS.items():
                        after = add((total, usable), card)
                        bust = after[0] > 21
                        outcome[OVER if bust else name(*after, shown, False), -1.0 if bust else 0.0] += q
                    rows += [(here, "Hit", s, q, r) for (s, r), q in outcome.items()]
                    outcome.clear()
                    for (points, cards), q in dealer.items():
                        value = 0 if points > 21 else points
                        beaten = natural and not (value == 21 and cards == 2)
                        outcome[OVER, 1.0 if beaten else float((total > value) - (total < value))] += q
                    rows += [(here, "Stick", s, q, r) for (s, r), q in outcome.items()]
        for one, q in CARDS.items():
            for two, r in CARDS.items():
                hand = add(add((0, False), one), two)
                start[name(*hand, shown, sab and hand == (21, True))] += p * q * r
    rows.append((OVER, "Stick", OVER, 1.0, 0.0))
    columns = zip(*rows, strict=True)
    table = dict(zip(("state", "action", "next_state", "probability", "reward"), map(list, columns), strict=True))
    return MDP(table, horizon=horizon, start=dict(start))


def add(hand: Hand, card: int) -> Hand:
    """Return the hand with one more card."""
    total, usable = hand[0] + card, hand[1]
    if card == 1 and not usable and total + 10 <= 21:
        return total + 10, True
    return (total - 10, False) if usable and total > 21 else (total, usable)


@cache
def finals(hand: Hand, cards: int) -> dict[tuple[int, int], float]:
    """Return the law of the dealer's last sum and number of cards; from three cards on the number is 3."""
    if hand[0] >= 17:
        return {(hand[0], min(cards, 3)): 1.0}
    law: dict[tuple[int, int], float] = defaultdict(float)
    for card, p in CARDS.items():
        for end, q in finals(add(hand, card), min(cards + 1, 3)).items():
            law[end] += p * q
    return dict(law)


def name(total: int, usable: bool, shown: int, natural: bool = False) -> str:
    """Return the name of a state."""
    kind = "natural" if natural else f"{'soft' if usable else 'hard'} {total}"
    return f"{kind} against {'ace' if shown == 1 else shown}"
