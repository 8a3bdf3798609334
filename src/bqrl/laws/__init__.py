"""Finite probability laws of the return and their functionals; independent of MDPs."""
