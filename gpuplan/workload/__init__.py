"""Model and plan to work items and buffers; knows no hardware."""
