import bqrl


def test_a_problem_with_one_return_has_a_plan():
    mdp = bqrl.MDP([[[1.0]]], [[2.0]], horizon=3)
    for objective in (bqrl.MeanCVaR(0.1, 0.5), bqrl.Utility(lambda x: x * x)):
        plan = bqrl.solve(mdp, objective)
        assert plan.value == plan.upper == objective(plan.law)
