"""Figures of measured curves, drawn by matplotlib in one style for lessons, commands and docs."""
