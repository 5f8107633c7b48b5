"""Preempting a forward pass between two layers, on tensor-parallel ranks that all leave together.

    shared_state, messages        what the engine and its ranks say to each other, and how
    sharding, forward             one rank's share of the weights, and a pass that can stop
    collectives, agreement        how ranks add up, and how they decide to leave
    rank                          the process that runs one rank
    processes, runner             the engine's side: starting ranks, ordering passes, ending ranks
    replies, verdict              what came back, and what it means
    monitor                       the thread that wants a pass gone, and what it looks at
    executor                      the seam to the engine
    cleanup, sleeping             what an abort undoes, how long a suspension lasts
    promises, records, settings   deadlines, what happened, and what may be exchanged
    gating                        the SLO policy as the monitor's gate
    serving                       an engine that can be preempted
    points, races                 holding a rank at a named point; the defects, one each

Shapes as in `nanogpt`; on one of R ranks, h = H / R heads.
"""
