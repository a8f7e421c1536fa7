"""gpuplan: does it fit, how fast, what does it cost, and what would be better."""

__version__ = "0.1.0"
