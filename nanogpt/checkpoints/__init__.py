"""The shipped weights: loading and training them, their tokenizer, and the counts of the draft."""
