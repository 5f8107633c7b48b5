"""A simulated fleet of serving engines on a virtual clock.

    decisions, fleet_policies, transfers        the reference policies
    fleet_config, costs                         settings, the fleets to compare, modelled times
    workload                                    seeded loads
    request_state, waiting, prefix_caches, speculating, simulated_worker      the pieces of a fleet
    dispatching, simulation                     dispatch rounds and the event loop
    fleet_record, metrics                       the result of a run

`python -m nanogpt.fleet` runs it. Nothing here touches a model or a GPU: all times are modelled.
Times are integer microseconds (`_us`), lengths are tokens, priority 0 is the most urgent.
"""
