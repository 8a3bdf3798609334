"""A trade-off as a Result: a slider along the curve, which sentence, chart, law of the return and policy map follow.

The charts of plans follow the control `tau`, whose values are here the guarantees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.display import format_number, runs
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.tradeoff import Tradeoff
from bqrl.policies.forward import play_shares
from bqrl.results.charts import with_charts
from bqrl.results.plan_charts import law_chart, policy_chart, trade_chart
from bqrl.results.plans import MAX_SHARES, in_one_line, sizes
from bqrl.results.result import Control, Result, ResultTable, Sentence, versions
from bqrl.results.words import Words, sentence
from bqrl.study.scores import spread_indices

SHOWN = 16  # guarantees of the slider: each costs one sweep and one evaluation


def trade_result(trade: Tradeoff, words: Words) -> Result:
    """The result of a trade-off."""
    mdp, model = trade.mdp, sizes(words.title, trade.mdp)
    shown = spread_indices(trade.guarantee.size, SHOWN).tolist()
    keys = [float(trade.guarantee[i]) for i in shown]
    policies = {key: trade.recompute(i) for key, i in zip(keys, shown, strict=True)}
    brackets = {key: law_bracket(mdp, policy) for key, policy in policies.items()}
    shares = {}
    if mdp.H * mdp.S * mdp.A <= MAX_SHARES:
        shares = {key: play_shares(mdp, policy) for key, policy in policies.items()}
    titles = {
        name: words.titled(name.replace("mean_upper", "mean at most")) for name in ("guarantee", "mean", "mean_upper")
    }
    titles["shortfall"] = "falls short with at most"
    caption = "The best mean found for each guarantee, and a proven bound on the mean of all policies with it."

    def charts() -> dict[str, Any]:
        laws = {key: law for key, (law, _) in brackets.items()}
        rounded = any(upper is not None for _, upper in brackets.values())
        drawn = {"tradeoff": trade_chart(trade, words, keys)}
        promises = {key: key for key in keys}
        drawn["return_law"] = law_chart(laws, promises, rounded=rounded, words=words)
        if shares:
            names = [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]
            drawn["policy_map"] = policy_chart(shares, *names, words=words)
        return drawn

    labels = [words.amount(format_number(key, direction=-1)) for key in keys]
    slider = Control(name="tau", title="Guarantee", values=keys, labels=labels, start=len(keys) - 1)
    result = Result(
        kind="tradeoff",
        title=words.title,
        settings={"size": in_one_line(model, words), "objective": trade.objective.label, "sweeps": trade.sweeps},
        tables={"tradeoff": ResultTable(trade.rows(), titles=titles, caption=caption)},
        sentences=[Sentence(_said(trade, i, words), when={"tau": key}) for key, i in zip(keys, shown, strict=True)],
        choices=[slider],
        details={"model": model, "rows": trade.rows(), "exact": trade.exact, "versions": versions()},
    )
    return with_charts(result, charts)


def _said(trade: Tradeoff, i: int, words: Words) -> str:
    """One row of the curve in words: the guarantee, the mean, and their distances from the two ends."""
    amount = words.amount(format_number(float(trade.guarantee[i]), direction=-1))
    promise = f"in {runs(trade.objective.tau)} you get at least {amount}"
    if trade.objective.beta > 0.0:
        promise = f"the {trade.objective.label} is {amount}"
    mean, most = (words.amount(format_number(float(x), 5)) for x in (trade.mean[i], trade.mean_upper[i]))
    close = bool(np.isclose(trade.mean[i], trade.mean_upper[i], rtol=1e-6))
    bound = "the best possible with it" if close else f"no policy with it has more than {most}"
    less = words.amount(format_number(float(trade.mean[0] - trade.mean[i]), 4))
    price = "" if i == 0 else f", {less} less than that of the risk-neutral policy"
    return sentence(f"{promise}; the mean is {mean}{price}; {bound}")
