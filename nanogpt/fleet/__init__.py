"""A fleet of workers on a virtual clock: routing, priorities, preemption, prefixes, speculation.

    views, decisions, fleet_parts       what a policy sees, decides, and may answer
    fleet_config, presets, costs        the rules of a fleet, those to compare, modelled times
    workload                    loads from a seed, one random stream per kind of draw
    waiting, radix, prefixes, speculating, urgency, worker      what a fleet is made of
    prefix_index, open_workers, dispatching     which worker knows and can take what
    simulation                  event by event
    fleet_record, metrics, tracing, request_state       what a run leaves, and how

`python -m nanogpt.fleet` runs it. Nothing here touches a model or a GPU: all times are modelled.
Times are integer microseconds (`_us`), lengths are tokens, priority 0 is the highest.
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.fleet.costs import CALIBRATED_COST, COSTS, SOURCE_COST, CostModel
    from nanogpt.fleet.decisions import bump, on_event, route
    from nanogpt.fleet.fleet_config import FleetConfig
    from nanogpt.fleet.fleet_parts import FleetParts
    from nanogpt.fleet.fleet_record import FleetRun, FleetTrace, Outcome
    from nanogpt.fleet.metrics import Metrics, Sample
    from nanogpt.fleet.presets import ADAPTIVE, AS_SOURCE, FIFO, PRESETS, STATIC
    from nanogpt.fleet.simulation import Simulation, simulate
    from nanogpt.fleet.views import FleetSnapshot, WaitingView, WorkerView
    from nanogpt.fleet.workload import FleetRequest, Scenario, Workload, make_workload

__all__ = [
    "ADAPTIVE",
    "AS_SOURCE",
    "CALIBRATED_COST",
    "COSTS",
    "FIFO",
    "PRESETS",
    "SOURCE_COST",
    "STATIC",
    "CostModel",
    "FleetConfig",
    "FleetParts",
    "FleetRequest",
    "FleetRun",
    "FleetSnapshot",
    "FleetTrace",
    "Metrics",
    "Outcome",
    "Sample",
    "Scenario",
    "Simulation",
    "WaitingView",
    "WorkerView",
    "Workload",
    "bump",
    "make_workload",
    "on_event",
    "route",
    "simulate",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ADAPTIVE": "presets",
        "AS_SOURCE": "presets",
        "CALIBRATED_COST": "costs",
        "COSTS": "costs",
        "FIFO": "presets",
        "PRESETS": "presets",
        "SOURCE_COST": "costs",
        "STATIC": "presets",
        "CostModel": "costs",
        "FleetConfig": "fleet_config",
        "FleetParts": "fleet_parts",
        "FleetRequest": "workload",
        "FleetRun": "fleet_record",
        "FleetSnapshot": "views",
        "FleetTrace": "fleet_record",
        "Metrics": "metrics",
        "Outcome": "fleet_record",
        "Sample": "metrics",
        "Scenario": "workload",
        "Simulation": "simulation",
        "WaitingView": "views",
        "WorkerView": "views",
        "Workload": "workload",
        "bump": "decisions",
        "make_workload": "workload",
        "on_event": "decisions",
        "route": "decisions",
        "simulate": "simulation",
    },
)
