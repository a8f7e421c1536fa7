"""From a goal to machines, counts and plans."""
