"""Worked examples of the field: closed forms that papers and books publish with figures, and that no estimate uses.

`gpuplan calc` works them out, and the exam (tests/exam) or a test of estimates holds each against what was published.
"""
