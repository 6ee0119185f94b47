"""`tokenlane bench`: what a client of an OpenAI-compatible server gets to feel, measured by a client that costs little.

    quantiles, ratios    percentiles, bootstrap intervals, what A against B comes to
    workload, load       what is asked, and when
    outcome, reading     one answer: bytes and their times in, what it was worth out
    summary, result      many outcomes as one cell of a result; the result's format
    search               the greatest concurrency that is still quick
    report/              results as Markdown, SVG and HTML
    target               an address and the bytes of a request to it
    connection, client, runner, session, facts, limits, progress    the modules that do I/O

All but the last line are pure: no clock, no socket, no task; chance comes from a seed. Times are seconds inside and
milliseconds in results.
"""
