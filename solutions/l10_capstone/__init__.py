"""Lesson 10, your engine, served: a module for each exercise."""
