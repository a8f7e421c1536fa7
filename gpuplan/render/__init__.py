"""Estimates to tables, trees, JSON, CSV and Markdown; no arithmetic beyond shares of a total."""
