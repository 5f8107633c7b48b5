"""The names that readers of the posts know: their run functions, and their calls on padded K/V."""
