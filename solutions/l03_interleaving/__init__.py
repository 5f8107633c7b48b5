"""Lesson 3, interleaving: a module for each exercise."""
