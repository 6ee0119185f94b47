"""How many sockets this process may have."""

import contextlib
import resource


def allow_sockets() -> None:
    """Raises the limit of open files as far as that is allowed: many systems begin with 1,024, one for each socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems name a limit here that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
