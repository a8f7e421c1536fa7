"""The rules of `gpuplan specs check`, one file for each group of them."""
