"""The one tolerance for masses. It decides every quantile and every comparison of a probability with a level."""

MASS_TOL = 1e-12  # probabilities closer than this are the same probability
