"""Chaos: a real gateway, simulated engines that are killed, paused and restarted, and clients of all kinds.

Every answer is held against what the request must give, and at the end nothing may be left. See docs/chaos.md.

    asks      what a client may ask for, drawn from a seed                          pure
    truth     what the engine says to it, by the simulator's own pure modules       pure
    reading   an event stream, read strictly, and what its chunks say               pure
    oracle    what is wrong with an answer                                          pure
    report    counts, and whether all is well                                       pure
    client    one request over a raw socket, and the ways to leave it
    processes the gateway and the engines, which do not outlive this process
    trouble   what befalls the engines, and when
    watch     what the gateway holds
    storm     all of it together
"""
