"""Lesson 9, the fleet: a module for each exercise."""
