"""Speculative decoding: a cheap draft proposes tokens, and the model verifies them in one pass.

    drafting      what a draft is; how many tokens to draft, and drawing them
    verify        from a pass's logits to the tokens that stay
    trigram       a draft of counts

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192.
"""
