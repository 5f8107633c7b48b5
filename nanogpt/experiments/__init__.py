"""Runs to compare: process pools, paired seeds, intervals, tables."""
