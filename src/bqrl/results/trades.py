"""A trade-off as a Result: a slider along the curve, which sentence, charts, policy map and table of decisions follow.

The charts of plans follow the control `tau`, whose values are here the guarantees.
"""

from __future__ import annotations

from typing import Any

from bqrl.display import spread_indices
from bqrl.planners.tradeoff import Tradeoff
from bqrl.results.charts import with_charts
from bqrl.results.plan_charts import law_chart, policy_chart, trade_chart
from bqrl.results.plans import in_one_line, sizes
from bqrl.results.result import Control, Result, Sentence
from bqrl.results.steps import kept_number, step_tables, steps_along, trade_table
from bqrl.results.words import Words
from bqrl.versions import versions

SHOWN = 16  # guarantees of the slider: each costs one sweep and one evaluation


def trade_result(trade: Tradeoff, words: Words) -> Result:
    """The result of a trade-off."""
    mdp, model = trade.mdp, sizes(words.title, trade.mdp)
    steps = steps_along(trade, spread_indices(trade.guarantee.size, SHOWN).tolist(), words)
    keys = [step.guarantee for step in steps]
    tables, files = {"tradeoff": trade_table(trade, words)}, dict[str, bytes]()
    left_out = step_tables(trade, steps, [{"tau": key} for key in keys], words, "policy", tables, files)

    def charts() -> dict[str, Any]:
        drawn = {"tradeoff": trade_chart([trade], words, [[x.guarantee, "best", x.guarantee, x.mean] for x in steps])}
        laws = {step.guarantee: step.law for step in steps}
        rounded, (what, promises) = any(step.rounded for step in steps), ("the promise", {key: key for key in keys})
        if trade.objective.beta > 0.0:
            what, promises = "the quantile", {key: law.quantile(trade.objective.tau) for key, law in laws.items()}
        drawn["return_law"] = law_chart(laws, promises, what=what, rounded=rounded, words=words)
        shares = {step.guarantee: step.shares for step in steps if step.shares is not None}
        if shares:
            names = [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]
            drawn["policy_map"] = policy_chart(shares, *names, words=words)
        return drawn

    labels = [words.amount(kept_number(trade.objective, key)) for key in keys]
    kept = "Guarantee" if trade.objective.beta == 0.0 else trade.objective.label
    slider = Control(name="tau", title=kept, values=keys, labels=labels, start=len(keys) - 1)
    result = Result(
        kind="tradeoff", title=words.title,
        settings={"size": in_one_line(model, words), "objective": trade.objective.label, "sweeps": trade.sweeps},
        tables=tables, sentences=[Sentence(step.text, when={"tau": step.guarantee}) for step in steps], choices=[slider],
        details={"model": model, "rows": trade.rows(), "exact": trade.exact, "versions": versions()}, files=files,
        left_out=left_out,
    )  # fmt: skip
    return with_charts(result, charts)
