"""Studies: from settings to finished runs and scores, on this machine or on a cluster, resumed where they stopped."""
