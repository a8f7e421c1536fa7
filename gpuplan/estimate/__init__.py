"""The wiring: plan, workload and machine to memory, time, cost and a verdict."""
