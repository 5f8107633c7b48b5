"""Service-level objectives for prefill: an SLO policy, and a simulation of its effect.

    policy, slo_policies                the policy, and its decisions
    predictor                           prefill times, fitted to a measured sweep
    load, variants                      seeded two-tier loads; the repair ladder
    prefill_simulation, slo_record      a prefill engine under load, and the result of a run

`python -m nanogpt.slo` makes the table. Times are integer microseconds (`_us`), lengths are
tokens; a prefill of n tokens is predicted to take a * n + c microseconds.
"""
