"""The published numbers: every entry can be built and says how its number was seen."""

import inspect

from bqrl.envs import about
from bqrl.envs.published import ENTRIES


def test_entries_name_known_parameters_and_their_source():
    for entry in ENTRIES:
        assert set(entry.params) <= set(inspect.signature(about(entry.problem).build).parameters)
        assert (entry.value is None) == (entry.source == "") == (entry.seen == "")
        assert entry.seen in ("", "read", "summary")
        assert entry.error is None or entry.value is not None


def test_entries_are_distinct_and_sorted_by_problem():
    seen = [(entry.problem, tuple(entry.params.items()), entry.objective, entry.source) for entry in ENTRIES]
    assert len(set(seen)) == len(seen)
    assert [entry.problem for entry in ENTRIES] == sorted(entry.problem for entry in ENTRIES)
