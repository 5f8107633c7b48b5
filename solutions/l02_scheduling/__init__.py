"""Lesson 2, the scheduler: a module for each exercise."""
