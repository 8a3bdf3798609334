"""The study of the UCB-BQRL paper: its settings, its printed numbers, its presentation, and its theory experiments."""
