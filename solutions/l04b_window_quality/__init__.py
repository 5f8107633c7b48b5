"""Lesson 4b, what a window costs in text: a module for each exercise."""
