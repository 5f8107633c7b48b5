"""The pictures of the course: anywidgets that draw plain JSON records and step in the browser.

timeline      what every request did in every step of a run, beside a reference
mask_stepper  who may see whom, one query row at a time
step_cost     what a step costs: fixed + per token
work_bars     tokens computed per generated token, with and without a cache
batching      slots over time: static beside continuous
heap_stepper  the waiting queue's heap, one sift move at a time
kv_budget     KV tokens against the budget, preemptions and recomputed tokens
prediction    a question answered before the answer is shown
hints         three rungs, one at a time

standalone    any of them in one HTML file that needs no server
"""

from widgets.batching import Batching
from widgets.heap_stepper import HeapStepper
from widgets.hints import Hints
from widgets.kv_budget import KVBudget
from widgets.mask_stepper import MaskStepper
from widgets.prediction import Prediction
from widgets.step_cost import StepCost
from widgets.timeline import Timeline
from widgets.work_bars import WorkBars

__all__ = [
    "Batching",
    "HeapStepper",
    "Hints",
    "KVBudget",
    "MaskStepper",
    "Prediction",
    "StepCost",
    "Timeline",
    "WorkBars",
]
