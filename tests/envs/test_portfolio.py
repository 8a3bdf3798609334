"""The portfolio rounds to whole units."""

from bqrl.envs import make


def test_portfolio_rounds_to_whole_units():
    mdp = make("Portfolio", horizon=1, wealth=10)
    gains = {name: mdp.outcomes(0, mdp.start, a)[2].tolist() for a, name in enumerate(mdp.action_names)}
    assert gains == {"0 % shares": [0.0], "25 % shares": [0.0, 1.0], "50 % shares": [0.0, 1.0],
                     "75 % shares": [-1.0, 2.0], "100 % shares": [-1.0, 2.0]}  # fmt: skip
