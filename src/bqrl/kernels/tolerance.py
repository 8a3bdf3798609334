"""The tolerances for probabilities."""

MASS_TOL = (
    1e-12  # computed ones closer than this are equal; it decides every quantile and every comparison with a level
)
SUM_TOL = 1e-9  # how far from 1 given ones may sum: files and callers round them to about ten digits
