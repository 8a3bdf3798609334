"""The tolerances for probabilities."""

# Computed probabilities closer than this are equal; it decides every quantile and every comparison with a level.
MASS_TOL = 1e-12
# Given probabilities may sum to 1 up to this error, because files and callers round them to about ten digits.
SUM_TOL = 1e-9
