"""Lesson 8, speculation: a module for each exercise."""
