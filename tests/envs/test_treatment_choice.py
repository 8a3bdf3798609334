"""Treatment rows follow the tables."""

import pytest

from bqrl.envs import make


def test_treatment_rows_follow_the_tables():
    mdp = make("TreatmentChoice")
    after, p, paid = mdp.outcomes(0, mdp.state_names.index("Severe"), mdp.action_names.index("Intensive"))
    assert [mdp.state_names[t] for t in after] == ["Mild", "Severe", "Critical", "Dead"]
    assert p.tolist() == pytest.approx([0.45, 0.37, 0.12, 0.06])
    assert set(paid) == {15.0 - 6.0}
