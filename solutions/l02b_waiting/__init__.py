"""Lesson 2b, who waits: a module for each exercise."""
