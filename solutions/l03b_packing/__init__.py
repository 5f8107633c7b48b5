"""Lesson 3b, nothing padded: a module for its exercise."""
