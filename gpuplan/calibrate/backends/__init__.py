"""The frameworks that can drive a device: see `gpuplan.calibrate.device`."""
