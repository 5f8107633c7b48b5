"""Preempting a forward pass between two layers, on tensor-parallel ranks that all leave together.

    shared_state, rank_messages   the shared memory; calls, replies, and what replies mean together
    sharded_model                 one rank's share of the weights, and a pass that can stop
    agreement, rank               how ranks decide to leave, and the process that runs one rank
    runner, tensor_parallel       the engine's side: rank processes, their passes, the executor
    monitor                       the thread that asks for a preemption, and its gate
    cleanup                       what follows a preemption
    preemptive_engine, preemptive_scheduler, preemption_records     an engine that can be preempted
    races                         wrong functions, one for each race

Shapes as in `nanogpt`; on one of R ranks, h = H / R heads.
"""
