"""Intervals, paired tests, sequential tests and power: numbers in, numbers out."""
