"""Price catalogs of other projects, read into files of ours: nothing is taken on trust, and nothing is left out in silence."""
