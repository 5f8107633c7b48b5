"""Lesson 7b, a second tier of K/V: a module for each exercise."""
