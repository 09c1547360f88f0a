"""Evals: a planner's answers in the words of an eval set, judged, counted and compared."""
