"""The worked answers of every lesson, other right answers, and the known wrong ones."""
