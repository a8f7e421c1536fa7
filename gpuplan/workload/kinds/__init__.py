"""Kinds of layers: each says once what it does and holds."""
