"""Admission: who may ask an engine, and who waits for how long.

`choice` says which lane a request belongs to, `gate` gives it a slot or a place in that lane's queue, `lanes` says
which lane goes next when one gate serves several, `drain` says when a refused client should come back.
"""
