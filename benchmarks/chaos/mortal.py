"""Becomes another program that is killed when its parent dies: mortal.py PARENT COMMAND... Linux only."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has gone")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - that is what it is for
