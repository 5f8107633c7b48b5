"""Lesson 0, the KV cache and batching: a module for each exercise."""
