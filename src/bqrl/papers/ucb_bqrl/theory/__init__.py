"""Experiments that compare the theory with runs: one file per experiment, and `suite`, which lists and runs them."""
