"""Models that Storm builds and writes, for the tests of the file readers."""

import pytest

JOB = """mdp
const int N = 4;
module job
  s : [0..N] init 0;
  worn : bool init false;
  [run] s < N & !worn -> 0.6 : (s' = s + 1) + 0.4 : (s' = s + 1) & (worn' = true);
  [run] s < N & worn -> 0.3 : (s' = s + 1) + 0.7 : true;
  [rest] s < N -> 0.9 : (worn' = false) + 0.1 : true;
  [] s = N -> true;
endmodule
rewards "gain"
  [run] true : 1.5;
  s = N : 3;
endrewards
rewards "cost"
  [rest] true : 2;
endrewards
"""


def storm():
    """The package stormpy, or skip the test."""
    return pytest.importorskip("stormpy", minversion="2.0", reason="Storm is not installed here (extra `storm`)")


def built(folder):
    """The model of JOB, with labels, state variables and all rewards."""
    stormpy = storm()
    place = folder / "job.nm"
    place.write_text(JOB)
    options = stormpy.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_all_labels()
    options.set_build_choice_labels()
    options.set_build_state_valuations()
    program = stormpy.parse_prism_program(str(place))
    return program, stormpy.build_model(program, options=options)


def storm_mean(program, model, structure, H):
    """The largest mean of the rewards of H steps, by Storm."""
    stormpy = storm()
    (prop,) = stormpy.parse_properties(f'R{{"{structure}"}}max=? [C<={H}]', program)
    return list(stormpy.model_checking(model, prop).get_value_vector())[model.initial_states[0]]
