"""Importing does nothing: no socket, no file of ours, no look at our variables, no task."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

WATCH = """
import importlib, os, pkgutil, sys

seen = []

def watch(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__":
        seen.append(event)
    elif event == "socket.__new__":
        seen.append(event)
    elif event == "open" and str(arguments[0]).endswith((".env", ".toml")):
        seen.append(f"open {arguments[0]}")

class Environment(dict):
    def __getitem__(self, name):
        self.look(name)
        return super().__getitem__(name)
    def get(self, name, default=None):
        self.look(name)
        return super().get(name, default)
    def __contains__(self, name):
        self.look(name)
        return super().__contains__(name)
    def look(self, name):
        if "TOKENLANE" in str(name).upper():
            seen.append(f"environment {name}")

os.environ = Environment(os.environ)
sys.addaudithook(watch)
for package in map(importlib.import_module, ("gateway", "config", "app")):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
import threading
seen += [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
print(seen)
"""


def test_importing_every_module_opens_nothing_and_starts_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", WATCH], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
