"""The pictures of the course: anywidgets that draw plain JSON records and step in the browser.

timeline               what every request did in every step of a run, beside a reference
mask_stepper           which keys a query may see, one row at a time
mask_build             a fused batch's mask, built in visible steps
batch_view             a padded batch cell by cell, packed into a strip with its staircase mask
batching               slots over time: static beside continuous
heap_stepper           the waiting queue's heap, one sift move at a time
kv_budget              KV tokens against the budget, preemptions and recomputed tokens
kv_growth              KV tokens of several runs, full and windowed, with padding waste
storage_strip          real storage as cells, the views into it, held beside counted
attention_by_distance  how far back trained heads look, and what a window cuts off
receptive_field        which positions can act on a token, layer by layer
block_pool             a run's pool of blocks: tables, what is shared, what can still be found
prefix_tree            the blocks that can be found, each behind its parent
slack_timeline         slack: arrival, now, the predicted TTFT, the deadline
gate_picture           the gate's four cases, and what beats what
vote_board             what each rank voted at each layer, and where all left
slo_cycle              one preemption from the arrival to the re-admission
fleet_view             workers, batches, K/V and the queue over virtual time
lazy_heap              a heap with stale entries, and the counters that tell them
accept_bars            whether a draft stays: p beside q, and what u and v decide
speculation_strip      what a draft proposed, and what the model made of it
prediction             a question answered before the answer is shown
hints                  three rungs, one at a time

bar                    a bar for the cell of a table, as HTML

standalone             any of them in one HTML file that needs no server
"""

from widgets.accept_bars import AcceptBars as AcceptBars
from widgets.attention_by_distance import AttentionByDistance as AttentionByDistance
from widgets.bar import bar as bar
from widgets.batch_view import BatchView as BatchView
from widgets.batching import Batching as Batching
from widgets.block_pool import BlockPool as BlockPool
from widgets.comparing import whose as whose
from widgets.fleet_view import FleetView as FleetView
from widgets.gate_picture import GatePicture as GatePicture
from widgets.heap_stepper import HeapStepper as HeapStepper
from widgets.hints import Hints as Hints
from widgets.kv_budget import KVBudget as KVBudget
from widgets.kv_growth import KVGrowth as KVGrowth
from widgets.lazy_heap import LazyHeap as LazyHeap
from widgets.mask_build import MaskBuild as MaskBuild
from widgets.mask_stepper import MaskStepper as MaskStepper
from widgets.prediction import Prediction as Prediction
from widgets.prefix_tree import PrefixTree as PrefixTree
from widgets.receptive_field import ReceptiveField as ReceptiveField
from widgets.slack_timeline import SlackTimeline as SlackTimeline
from widgets.slo_cycle import SloCycle as SloCycle
from widgets.speculation_strip import SpeculationStrip as SpeculationStrip
from widgets.storage_strip import StorageStrip as StorageStrip
from widgets.timeline import Timeline as Timeline
from widgets.vote_board import VoteBoard as VoteBoard
