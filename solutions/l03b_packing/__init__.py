"""Lesson 3b, packed batches: a module for its exercise."""
