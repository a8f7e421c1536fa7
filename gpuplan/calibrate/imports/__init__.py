"""Measurements that other tools made: one module a kind of file, each a pure parser of its text."""
