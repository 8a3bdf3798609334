"""Small example models that `bqrl envs --template` prints and `bqrl solve` accepts."""

from __future__ import annotations

from bqrl.checks import choice

CSV = """\
# A machine that wears out. One line per possible outcome of an action in a state.
# Lines "# key: value" above the header are optional: horizon, discount, start, states, actions, units.
# horizon: 12
# discount: 1.0
# start: New=0.9, Worn=0.1
# units: EUR
state,action,next_state,probability,reward
New,Run,New,0.8,100
New,Run,Worn,0.2,100
Worn,Run,Worn,0.7,80
Worn,Run,Broken,0.3,80
Worn,Repair,New,1.0,-50
Broken,Repair,New,1.0,-200
"""

JSON = """\
{
  "comment": [
    "A machine that wears out. A transition is [state, action, next state, probability, reward].",
    "Put the stage (from 0) in front of every transition if stages differ; a list of rewards gives one per stage.",
    "start is a state or a law; discount (default 1), units and comment are optional."
  ],
  "horizon": 12,
  "discount": 1.0,
  "start": {"New": 0.9, "Worn": 0.1},
  "units": "EUR",
  "states": ["New", "Worn", "Broken"],
  "actions": ["Run", "Repair"],
  "transitions": [
    ["New", "Run", "New", 0.8, 100],
    ["New", "Run", "Worn", 0.2, 100],
    ["Worn", "Run", "Worn", 0.7, 80],
    ["Worn", "Run", "Broken", 0.3, 80],
    ["Worn", "Repair", "New", 1.0, -50],
    ["Broken", "Repair", "New", 1.0, -200]
  ]
}
"""

TEMPLATES = {"csv": CSV, "json": JSON}


def template(form: str) -> str:
    """The example in the given form, csv or json."""
    return TEMPLATES[choice(form, "--template", TEMPLATES)]
