"""From an MDP to a plan, and from a policy to the exact law of its return."""
