"""Lesson 7's defects in other engines: threads in their trackers, each of which was read."""

ECHOES = """
- **A hash without its parent.** [AIBrix #2329](https://github.com/vllm-project/aibrix/issues/2329):
  keys were compared by their last block and the number of blocks, and by nothing of the prefix; the
  report names leaks between tenants as what may come of it.
- **Written in place.** [Atlas #1193](https://github.com/Avarok-Cybersecurity/atlas/issues/1193): a
  last block that was not full was shared, and nothing copied it before it was written. As long as
  the requests wrote the same it went well; then three of them gave the same wrong text.
- **Freed under another.** [SGLang #35501](https://github.com/sgl-project/sglang/pull/35501): two
  indices named one slot, and freeing the one gave the slot back while the other was in use. And
  with a pass still under way: [vLLM #45357](https://github.com/vllm-project/vllm/pull/45357) keeps
  the blocks of a request that has ended until no pass can write into them any more.
- **Found before it is there.** [vLLM #29387](https://github.com/vllm-project/vllm/pull/29387): of
  two requests in one step, the second counted as computed what the first was about to compute.
  [nano-vllm #208](https://github.com/GeeeekExplorer/nano-vllm/issues/208) asks whether that may
  happen in an engine that one can read in an hour.
- **What else matters.** [vLLM #3264](https://github.com/vllm-project/vllm/issues/3264): the adapter
  was not in the hash, so requests of two adapters shared K/V. [SGLang-Omni
  #260](https://github.com/sgl-project/sglang-omni/pull/260): every image has the same placeholder
  tokens; of 50 questions on images 22 were answered rightly, and 30 with the image's hash in the
  key.
"""
"""Markdown, a defect each, in the order of the exhibits."""

MORE = """
- **Python's `hash()`.** [vLLM #12621](https://github.com/vllm-project/vllm/pull/12621): since
  Python 3.12 `hash(None)` is the same in every process, so texts that collide could be worked out
  in advance. [vLLM #15297](https://github.com/vllm-project/vllm/pull/15297) brought SHA-256.
- **Parents before children.** [llm-d-inference-sim
  #704](https://github.com/llm-d/llm-d-inference-sim/issues/704): of three blocks of one request
  that were equally old, the first was evicted in 144 of 200 runs, and the two behind it could never
  be found again.
"""
"""The same, of what the exhibits do not show."""
