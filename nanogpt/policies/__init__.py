"""The decisions of the engine that another function may take, and the reference for each.

policy_set              `Policies`: one function for each decision
queueing                order, admission, victims, requeueing; `nanogpt.planning` has the plan
masks, fusing           causal masks; layouts of a batch
sliding_window, acceptance, blocks      a window, drafts, blocks
validate_policies       answers that would corrupt the engine's state, refused
"""

from nanogpt import lazy_names

# Imported when it is asked for: the simulations need a few of these functions, and no torch.
__getattr__ = lazy_names(__name__, {"Policies": "policy_set"})
