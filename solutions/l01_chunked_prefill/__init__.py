"""Lesson 1, chunked prefill: a module for each exercise."""
