"""Model architectures: the schema, the cards, and the import from what others publish."""
