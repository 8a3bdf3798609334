"""The search for the decisive width."""

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.widths import WidthSearch


def test_tables_beyond_the_limit_are_forgotten_and_swept_for_again():
    mdp = bqrl.envs.make("AssetSelling")
    ample, short = (
        WidthSearch(mdp=mdp, grid=lattice(mdp), tau=0.1, beta=0.06, max_bytes=limit) for limit in (2**30, 2**15)
    )
    assert ample.upper() == short.upper()
    tables = [sum(done.tables is not None for done in search.sweeps.values()) for search in (ample, short)]
    assert tables[1] < tables[0] == len(ample.sweeps)
    assert ample.policy(3.0, 19).law.mean() == short.policy(3.0, 19).law.mean()
