"""The stages of a task, a module each: plain functions from the state of a task to its update."""
