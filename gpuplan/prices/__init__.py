"""Prices as data: those on record, and price catalogs of other projects read into files of ours, nothing of them on trust."""
