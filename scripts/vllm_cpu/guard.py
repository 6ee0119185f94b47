"""Runs a command and makes sure that nothing of it is left: guard.py GRACE COMMAND...

The command leads a process group of its own. It gets SIGTERM when standard input has something to read or ends, which
comes also when the process at the other end is killed. Once it has ended, asked or not, its children get SIGTERM too,
so that they remove their shared memory. What still lives GRACE seconds after that began is killed; sooner if standard
input had a byte and ends now. The exit code is the command's, 128 + n if signal n ended it.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
POLL = 0.02


def main() -> int:
    """Read argv, run, return the exit code."""
    grace, command = float(sys.argv[1]), sys.argv[2:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only standard input counts; a handler, so that exec resets it
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become children of this process, which waits for them
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    ended = os.pidfd_open(child.pid)
    stdin = sys.stdin.fileno()
    ready, _, _ = select.select([stdin, ended], [], [])
    watched = []
    if ended not in ready:
        watched = [stdin] if os.read(stdin, 1) else []
        child.terminate()
    return end(child.pid, time.monotonic() + grace, watched)


def end(leader: int, deadline: float, watched: list[int]) -> int:
    """Wait until every child is gone, kill at the deadline or when `watched` ends; returns the leader's exit code."""
    code = 0
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == leader:
                code = os.waitstatus_to_exitcode(status)
                tell(leader, signal.SIGTERM)
            if pid == 0 and (select.select(watched, [], [], POLL)[0] or time.monotonic() > deadline):
                tell(leader, signal.SIGKILL)
                watched, deadline = [], time.monotonic() + 1
    return 128 - code if code < 0 else code


def tell(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
