"""How many batch requests run at once, so that the interactive lane hardly notices them.

    pace                               pure: signs of the interactive lane in, a number out
    streams, wholes, presence, pauses  pure: what the pace is made of
    signs                              how the interactive lane does, told by the gateway
    pacer                              the pace with its clock, and who asks it when

Where the lanes share their engines it holds for all requests of the batch lane, at the gate; where they do not, for
lines of batches alone (`gateway.batch`).
"""
