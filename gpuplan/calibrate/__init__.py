"""Measurements of kernels to the parameters of the machine model."""
