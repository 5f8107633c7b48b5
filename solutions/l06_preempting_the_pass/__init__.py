"""Lesson 6, preempting the pass: a module for each exercise."""
