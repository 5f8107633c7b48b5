"""Speculative decoding: a cheap draft proposes tokens, and the model verifies them in one pass.

    acceptance    which draft stays, what is gained, what to roll back: pure functions
    drafting      what a draft is; how many tokens to draft, and drawing them
    verify        from a pass's logits to the tokens that stay
    trigram, count_trigrams     a draft of counts, and how the shipped counts were made
    story         one request's passes, draft by draft, for the picture

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192.
"""
