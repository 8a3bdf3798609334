"""Logged episodes: reading them, estimating a model from them, and promises that hold with a stated confidence."""
