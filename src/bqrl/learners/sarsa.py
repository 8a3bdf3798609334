"""SARSA (Rummery and Niranjan 1994): the tables of Q-learning, updated with the value of the next action played.

    Q_h(s, a) += max(learning_rate, 1 / n) * ( r + discount * Q_{h+1}(s', a') - Q_h(s, a) ),   Q_H = 0.

The behaviour, epsilon, the evaluated policy and the optimistic start are those of Q-learning.
"""

from __future__ import annotations

from bqrl.learners.q_learning import QLearning


class Sarsa(QLearning):
    """SARSA: the action values include the exploration of the behaviour."""

    name, label, colour = "sarsa", "SARSA", "#E69F00"
    on_policy = True
