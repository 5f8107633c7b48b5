"""Lesson 4, the sliding window: a module for each exercise."""
