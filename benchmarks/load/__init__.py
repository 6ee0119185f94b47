"""Load: what the gateway does to streams, and what it costs beside other proxies.

Nothing but this repository is needed:

    python -m benchmarks.load.buffer    events, bytes and ages at several paces, against the engine itself
    python -m benchmarks.load.peers     CPU, throughput and times beside nginx and any other proxy
    python -m benchmarks.load.flame     where the CPU goes, as a picture (needs py-spy)

    cells, client, answers    what is asked, how, and what came of it
    flames                    what the picture is made of
    stage, proxies, metering  the processes, and what they use
    figures, report           numbers, tables and files

The engine is `tokenlane sim`. The client only notes pieces and times while it measures, and looks at them afterwards.
"""
