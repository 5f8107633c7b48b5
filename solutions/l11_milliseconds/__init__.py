"""Lesson 11, where the milliseconds go: a module for each exercise."""
