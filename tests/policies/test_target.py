import numpy as np
import pytest

import bqrl
from bqrl.planners.curve import guarantee_curve

MODEL = bqrl.envs.make("AssetSelling")


def test_the_memory_of_a_target_policy_is_what_is_still_needed():
    policy = guarantee_curve(MODEL).policy(0.1)
    assert policy.start() == pytest.approx(19 / 24)
    assert policy.next(policy.start(), 0, 5, 0, 5 / 24, 25) == pytest.approx(14 / 24)


def test_target_rows_say_what_the_policy_does():
    policy = guarantee_curve(MODEL).policy(0.1)
    for row in policy.rows(MODEL):
        need = row["need_up_to"] if np.isfinite(row["need_up_to"]) else 99.0
        s = MODEL.state_names.index(row["state"])
        assert MODEL.action_label(policy.act(row["stage"] - 1, s, need)) == row["action"]
