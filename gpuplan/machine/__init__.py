"""Work item and hardware to seconds; knows no model."""
