"""Warm-up: an engine that has just started compiles kernels for each batch shape it meets, and whoever is first waits.

`plan` says which bursts there are, `course` which is next and whether an engine is warm; both are pure. `asking` sends
one burst, `facts` reads what is to be known of an engine, `run` goes through a course in a bounded time, and `engines`
does it for the gateway: who has been warmed, how far it is, who is told.
"""

from gateway.warmup.course import Course
from gateway.warmup.plan import Extent, Size, sizes

__all__ = ["Course", "Extent", "Size", "sizes"]
