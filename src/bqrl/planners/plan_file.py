"""Plans in files: the policy, the objective, the law and the numbers, as plain arrays and one JSON text.

A loaded plan has no problem (`plan.mdp` is None) and no details such as the guarantee curve; `plan.outlook(mdp, ...)` and
`bqrl.stress(mdp, plan)` take the problem as an argument.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from fractions import Fraction
from typing import Any

import numpy as np

from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import damage_error, floats_of, require
from bqrl.planners import facts
from bqrl.planners.plan import Plan
from bqrl.planners.solve import KINDS
from bqrl.policies.files import PLAN, policy_from_arrays

VERSION = 1
OBJECTIVES = {kind.__name__: kind for kind in KINDS if kind.name}  # a function such as a utility has no name
NUMBERS = ("value", "upper", "nominal", "mean_upper", "certain", "exact", "attitude", "planner", "seconds", "units")


def plan_arrays(plan: Plan) -> dict[str, Any]:
    """Return a plan as arrays; an error for an objective that is a function."""
    kind = type(plan.objective).__name__
    if kind not in OBJECTIVES:
        raise ArgumentError(
            f"files store plans for {', '.join(OBJECTIVES)}, got {kind}; save plan.policy", name="thing"
        )
    said = {name: getattr(plan, name) for name in NUMBERS}
    said |= {"objective": _named(plan.objective), "notes": [[type(note).__name__, _parts(note)] for note in plan.notes]}
    laws = {"law": plan.law, "law_upper": plan.law_upper}
    arrays: dict[str, Any] = {PLAN: np.array(VERSION), "facts": np.array(json.dumps(said, default=str))}
    for name, law in laws.items():
        if law is not None:
            arrays |= {f"{name}_values": law.values, f"{name}_probabilities": law.probabilities}
            arrays |= {} if law.bound is None else {f"{name}_bound": np.array(json.dumps(law.bound._asdict()))}
    return arrays | {f"policy_{key}": part for key, part in plan.policy.file_arrays().items()}


def plan_from_arrays(arrays: dict[str, Any]) -> Plan:
    """Return the plan that saved arrays describe; raise FileFormatError if they describe none."""
    version = str(arrays[PLAN])
    if version != str(VERSION):
        raise FileFormatError(f"expected a plan of version {VERSION}, got {version[:40]}", column=PLAN)
    try:
        said = json.loads(str(arrays["facts"]))
        objective = _objective(said.pop("objective"))
        notes = tuple(_fact(name, parts) for name, parts in said.pop("notes"))
        require(set(said) == set(NUMBERS), "facts", "hold the numbers of a plan", sorted(said))
        policy = policy_from_arrays(arrays)
        upper = _law(arrays, "law_upper") if "law_upper_values" in arrays else None
        return Plan(objective=objective, policy=policy, law=_law(arrays, "law"), law_upper=upper, facts=notes, **said)
    except FileFormatError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise damage_error("a plan", fault) from None


def _named(objective: Any) -> list[Any]:
    """Return an objective as its name and its numbers."""
    return [type(objective).__name__, asdict(objective)]


def _objective(named: Any) -> Objective:
    """Return a stored objective."""
    kind, given = named
    require(kind in OBJECTIVES, "facts", f"name one of {', '.join(OBJECTIVES)}", kind)
    return OBJECTIVES[kind](**given)


def _parts(note: Any) -> dict[str, Any]:
    """Return the fields of a note for JSON."""
    values = {part.name: getattr(note, part.name) for part in fields(note)}
    return {name: _named(x) if isinstance(x, Objective) else x for name, x in values.items()}


def _law(arrays: dict[str, Any], name: str) -> Law:
    """Return a stored law."""
    values, masses = (floats_of(arrays, f"{name}_{part}", (None,)) for part in ("values", "probabilities"))
    bound = json.loads(str(arrays[f"{name}_bound"])) if f"{name}_bound" in arrays else None
    return Law.from_dict({"values": values, "probabilities": masses} | ({} if bound is None else {"bound": bound}))


def _fact(name: str, parts: dict[str, Any]) -> facts.Fact:
    """Return a stored note: lists are tuples again, and fractions are read from their text."""
    kind = getattr(facts, name)
    require(isinstance(kind, type) and issubclass(kind, facts.Fact), "facts", "list notes of a plan", name)
    types = {part.name: str(part.type) for part in fields(kind)}
    read: dict[str, Any] = {"Fraction": Fraction, "Objective": _objective}
    found = {key: read[types[key]](x) if types[key] in read else x for key, x in parts.items()}
    return kind(**{key: tuple(x) if isinstance(x, list) else x for key, x in found.items()})
