"""Benchmarks: every row beside its floor, and beside memsmith 0.1.0, in the same run."""
