"""Lesson 9, blocks: a module for each exercise."""
