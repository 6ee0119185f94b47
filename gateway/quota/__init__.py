"""How much a key may ask: requests and tokens a minute, requests at once; in this process, or shared through Redis.

`memory` and `redis` import `limits`, which takes long: they are brought in when there is something to count.
"""

from gateway.quota.counters import Counters, CountersDown, Standing
from gateway.quota.quotas import Grant, Quotas

__all__ = ["Counters", "CountersDown", "Grant", "Quotas", "Standing"]
