"""Numba loops: arrays in, arrays out; they trust their caller and import nothing of ours."""
