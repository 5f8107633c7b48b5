"""Preempting a forward pass between two layers, on tensor-parallel ranks that all leave together.

    shared_state, rank_messages   what the engine and its ranks say to each other, and how
    sharding, forward             one rank's share of the weights, and a pass that can stop
    collectives, agreement        how ranks add up, and how they decide to leave
    rank                          the process that runs one rank
    rank_processes, runner        the engine's side: starting ranks, ordering passes, ending ranks
    rank_replies, pass_outcome    what came back, and what it means
    monitor                       the thread that wants a pass gone, and what it looks at
    tensor_parallel               the seam to the engine: an executor
    scheduler_books, cleanup      who is where, and what an abort undoes
    suspended                     how long a suspension lasts
    slo_ledger, records, preemption_settings      deadlines, what happened, what may be exchanged
    slo_gate                      the SLO policy as the monitor's gate
    preemptive_engine             an engine that can be preempted
    hold_points, races            holding a rank at a named point; the defects, one each

Shapes as in `nanogpt`; on one of R ranks, h = H / R heads.
"""
