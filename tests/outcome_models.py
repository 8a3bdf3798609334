"""Models with terminal values and further outcomes that several test files share."""

import bqrl


def shop(**more):
    """Demand that empties the stock loses different sales: one transition with several cases."""

    def step(stock, order, demand):
        sold = min(stock + order, demand)
        return stock + order - sold, 5 * sold - 2 * order, {"lost": demand - sold, "orders": order > 0}

    law = {0: 0.2, 1: 0.5, 3: 0.1, 4: 0.2}
    return bqrl.from_step(step, lambda s: range(3 - s), law, 4, 0, terminal={1: 1.5, 2: 3.0}, **more)


def with_an_extra_stage(mdp):
    """The oracle of terminal values: one more stage whose rewards are the terminal values and whose transitions do not matter."""
    staged = mdp.staged()
    lines = []
    for h in range(mdp.H):
        for s in range(mdp.S):
            for a in range(mdp.A):
                i = (h * mdp.S + s) * mdp.A + a
                for j in range(staged.row_start[i], staged.row_start[i + 1]):
                    lines.append((h, s, a, staged.successor[j], staged.probability[j], staged.own_reward[0, j]))
    lines += [(mdp.H, s, a, s, 1.0, mdp.terminal[s]) for s in range(mdp.S) for a in range(mdp.A)]
    return bqrl.MDP(lines, start=mdp.mu, discount=mdp.discount)
