"""Lesson 9b, prefill here, decode there: a module for each exercise."""
