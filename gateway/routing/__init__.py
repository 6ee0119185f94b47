"""Routing: which engine of a lane a request goes to.

`pool` is the table of a lane's engines, `policies` choose among those that may be asked, `breaker` says whether one
may be, and `prober` asks the engines themselves.
"""
