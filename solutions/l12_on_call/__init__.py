"""Lesson 12, on call: a module for each ticket."""
