"""Lesson 7, the fleet: a module for each exercise."""
