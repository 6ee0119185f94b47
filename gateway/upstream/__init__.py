"""Engines on the other side: the only folder that knows httpx.

    client.py       EngineClient, EngineResponse: what the rest of the library sees
    outgoing.py     the request that leaves: owned headers, no injection
    transport.py    an httpx transport over the pools below; https goes to httpx's own
    pool.py         the connections to one engine: a bound, LIFO reuse, an idle time
    connection.py   one socket
    exchange.py     one request on one connection: who gets the bytes, who may stop them
    answer.py       the bytes of one answer, no I/O
    pulled.py       the body of httpx's own transport, pushed like ours
    failures.py     foreign exceptions to those of this library
    body.py         the protocols between them
    engines/        kinds of engine: their paths and quirks

Why a transport of our own: httpx's stock one costs more than everything else on the way of a token, looks through
its whole pool for each request, and can lose a slot when a request is cancelled while it connects.
"""
