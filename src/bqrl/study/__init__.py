"""Studies: from settings to finished runs and scores, on this machine or on a cluster; a stopped study continues where it was."""
