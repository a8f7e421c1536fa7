"""Pure functions of numbers, each with units, a source and a worked example."""
