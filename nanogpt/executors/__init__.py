"""Executors: how a step's rows go through the model. Same rows, same logits, different layouts."""
