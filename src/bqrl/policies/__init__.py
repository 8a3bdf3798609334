"""Policies: an action for each stage, state and memory. Read `protocol` first."""
