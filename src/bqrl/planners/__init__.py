"""Planners, which compute a plan for an MDP, and the exact law of the return of a policy."""
