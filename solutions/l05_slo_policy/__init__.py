"""Lesson 5, the SLO policy: a module for each exercise."""
