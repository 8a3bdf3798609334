"""The machine wears out and is replaced."""

import pytest

from bqrl.envs import make


def test_machine_wears_out_and_is_replaced():
    mdp = make("MachineReplacement")
    worn = mdp.state_names.index("wear 4")
    after, p, paid = mdp.outcomes(0, worn, mdp.action_names.index("Run"))
    assert [mdp.state_names[t] for t in after] == ["wear 4", "worn out"]
    assert p.tolist() == pytest.approx([0.4, 0.6])
    assert paid.tolist() == [4.0, 4.0]
    assert mdp.outcomes(0, worn, mdp.action_names.index("Replace"))[2].tolist() == [-14.0]
    assert mdp.outcomes(0, worn, mdp.action_names.index("Overhaul"))[0].tolist() == [2]
