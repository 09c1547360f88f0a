"""The journal of runs: each step is written down before the next begins, so that any process can go on from there."""
