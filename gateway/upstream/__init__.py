"""Engines on the other side: the only folder that knows httpx.

`client.py` holds the pooled client and what it answers with; `transport.py` the HTTP/1.1 connections under it;
`engines/` what kinds of engine there are, with their paths and quirks.
"""
