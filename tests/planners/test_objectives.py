import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.planners.solve import FORMS, KINDS, OBJECTIVES, read_objective

LEVELS = st.floats(1e-6, 1.0, exclude_max=True)
NUMBERS = st.floats(-1e9, 1e9)
GOALS = st.one_of(
    st.builds(bqrl.Quantile, LEVELS),
    st.builds(lambda tau, share: bqrl.Buffered(tau, max(share * tau, 1e-9)), LEVELS, LEVELS),
    st.builds(bqrl.CVaR, LEVELS),
    st.just(bqrl.Mean()),
    st.builds(bqrl.Chance, NUMBERS),
    st.builds(bqrl.Entropic, LEVELS),
    st.builds(bqrl.MeanCVaR, LEVELS, LEVELS),
)


@given(GOALS)
def test_the_written_form_gives_the_objective_back(goal):
    assert read_objective(goal.text) == goal


def test_every_objective_with_a_name_has_a_form():
    assert {form.partition(":")[0] for form in FORMS} == set(OBJECTIVES)
    assert {kind for kind in KINDS if not kind.name} == {bqrl.Utility}
    assert bqrl.Utility(abs).text == ""
    assert (bqrl.CVaR(0.1).text, bqrl.Chance(100).text, bqrl.Mean().text) == ("cvar:0.1", "chance:100", "mean")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cvarr:0.1", "got 'cvarr:0.1'; did you mean 'cvar'?"),
        ("best", "objective must be one of quantile:TAU, buffered:TAU,BETA, chance:TARGET, "),
        ("cvar", "objective must be written as cvar:TAU, got 'cvar'"),
        ("buffered:0.1", "objective must be written as buffered:TAU,BETA, got 'buffered:0.1'"),
        ("quantile:low", "objective must be written as quantile:TAU, got 'quantile:low'"),
        ("mean:1", "objective must be written as mean, got 'mean:1'"),
        ("cvar:2", "tau must be a number in (0, 1], got 2"),
        ("", "objective must be one of"),
        (0.1, "objective must be a text such as 'cvar:0.1', got 0.1"),
    ],
)
def test_bad_texts_get_one_line(text, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        read_objective(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
