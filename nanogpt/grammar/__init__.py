"""Grammars: which texts a request may generate, and the matchers that hold its tokens to them."""
