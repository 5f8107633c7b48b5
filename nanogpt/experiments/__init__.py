"""Runs to compare: process pools, paired seeds, intervals, tables, a live dashboard."""
