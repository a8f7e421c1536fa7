"""Measuring the accelerator of this machine: which probes, how, what is trustworthy, and what file comes of it."""
