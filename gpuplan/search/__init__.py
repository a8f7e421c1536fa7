"""Many plans at once: grids, masks and choice."""
