"""Lesson 5b, the repair ladder: a module for its exercise."""
