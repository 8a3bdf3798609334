"""The study of the UCB-BQRL paper: its settings, its printed numbers, how it is presented, and its theory at work."""
