"""Preempting a forward pass between two layers, on tensor-parallel ranks that all leave together.

    shared_state, rank_messages   the shared memory, the points to hold a rank at, calls, replies
    sharded_model                 one rank's share of the weights, and a pass that can stop
    agreement, rank               how ranks decide to leave, and the process that runs one rank
    rank_processes, runner        the engine's side: starting ranks, running passes, ending ranks
    pass_outcome, cleanup         what the replies mean, and what follows a preemption
    monitor, slo_gate             the thread that wants a pass preempted, and the SLO policy for it
    tensor_parallel               the executor
    preemptive_engine, preemptive_scheduler     an engine that can be preempted
    preemption_settings, preemption_records, scheduler_state     plain data
    races                         wrong functions, one for each race

Shapes as in `nanogpt`; on one of R ranks, h = H / R heads.
"""
