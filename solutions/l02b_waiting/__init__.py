"""Lesson 2b, waiting: a module for each exercise."""
