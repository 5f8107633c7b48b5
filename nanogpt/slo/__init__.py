"""Service-level objectives for prefill: who is urgent, who gives way, and what comes of it.

    slo_view      what the policy sees of a request
    policy        slack, urgency, gate, the two rules, SLO-aware batches: pure functions
    predictor     prefill times from a measured sweep: a line or a cubic
    slo_parts     the policy as exchangeable parts, and what these may answer
    load          two-tier loads from a seed, and the cost of a pass
    slo_record    variants, and what a simulated run leaves behind: plain data, JSON
    passes, prefill_simulation      a prefill engine under load, event by event, in modelled time
    variants      the repair ladder, and small loads that show one thing each

`python -m nanogpt.slo` makes the table. Times are integer microseconds (`_us`), lengths are
tokens; `a` is microseconds per token, `c` microseconds per pass.
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.slo.load import POST_COST, Arrival, PrefillCost, two_tier_load
    from nanogpt.slo.policy import gate, refuses_preemption, slack, slo_batch, urgency
    from nanogpt.slo.predictor import Predictor, fit
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.slo_parts import SloParts
    from nanogpt.slo.slo_record import Run, Variant
    from nanogpt.slo.slo_view import SloRequest, SloView
    from nanogpt.slo.variants import LADDER

__all__ = [
    "LADDER",
    "POST_COST",
    "Arrival",
    "Predictor",
    "PrefillCost",
    "Run",
    "SloParts",
    "SloRequest",
    "SloView",
    "Variant",
    "fit",
    "gate",
    "refuses_preemption",
    "simulate",
    "slack",
    "slo_batch",
    "two_tier_load",
    "urgency",
]

__getattr__ = lazy_names(
    __name__,
    {
        "LADDER": "variants",
        "POST_COST": "load",
        "Arrival": "load",
        "Predictor": "predictor",
        "PrefillCost": "load",
        "Run": "slo_record",
        "SloParts": "slo_parts",
        "SloRequest": "slo_view",
        "SloView": "slo_view",
        "Variant": "slo_record",
        "fit": "predictor",
        "gate": "policy",
        "refuses_preemption": "policy",
        "simulate": "prefill_simulation",
        "slack": "policy",
        "slo_batch": "policy",
        "two_tier_load": "load",
        "urgency": "policy",
    },
)
