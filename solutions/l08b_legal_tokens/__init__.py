"""Lesson 8b, legal tokens: a module for each exercise."""
