"""What is asked: training and serving plans, their parallelism with its rules, and precision."""
