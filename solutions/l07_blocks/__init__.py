"""Lesson 7, blocks: a module for each exercise."""
