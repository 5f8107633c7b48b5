"""The course in a tab: exercises checked by Python in the reader's own browser."""
