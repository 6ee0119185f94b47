"""Renews the vendored modules of the chat page, and writes down what they are.

    python scripts/vendor_web.py           fetch, copy, write VENDORED.json
    python scripts/vendor_web.py --check   compare the files with VENDORED.json; no network

A module is copied as it was published, byte for byte, from its package in the npm registry (`npm pack`), at the exact
version that stands in `PACKAGES`. Needs npm; what runs later does not.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parent.parent / "app" / "web" / "vendor"
RECORD = VENDOR / "VENDORED.json"

PACKAGES: dict[tuple[str, str], dict[str, str]] = {
    ("vue", "3.5.45"): {
        "dist/vue.runtime.esm-browser.prod.js": "vue.js",
        "LICENSE": "vue.LICENSE.txt",
    },
    ("markdown-it", "15.0.3"): {
        "dist/browser/markdown-it.esm.min.mjs": "markdown-it.js",
        "LICENSE": "markdown-it.LICENSE.txt",
    },
    ("dompurify", "3.5.0"): {
        "dist/purify.es.mjs": "dompurify.js",
        "LICENSE": "dompurify.LICENSE.txt",
    },
    ("@highlightjs/cdn-assets", "11.12.0"): {
        "es/highlight.min.js": "highlight.js",
        "LICENSE": "highlight.LICENSE.txt",
    },
    ("uplot", "1.6.32"): {
        "dist/uPlot.esm.js": "uplot.js",
        "dist/uPlot.min.css": "uplot.css",
        "LICENSE": "uplot.LICENSE.txt",
    },
}
"""(package, exact version) -> file in the package -> file here. Vue comes without its compiler, which needs eval."""


def main() -> int:
    """Runs the command; 0 if the files are what the record says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    if not parser.parse_args().check:
        renew()
    problems = differences()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def renew() -> None:
    """Fetches every package and replaces the folder's files and the record."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    record = [fetch(name, version, files) for (name, version), files in PACKAGES.items()]
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def fetch(name: str, version: str, files: dict[str, str]) -> dict[str, Any]:
    """Copies the files of one package; returns its entry of the record."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, capture_output=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            manifest = json.loads(read(packed, "package.json"))
            contents = {target: read(packed, source) for source, target in files.items()}
    for target, body in contents.items():
        (VENDOR / target).write_bytes(body)
    return {
        "package": name,
        "version": version,
        "license": manifest["license"],
        "files": [
            {"file": target, "source": source, "bytes": len(contents[target]), "sha256": sha256(contents[target])}
            for source, target in files.items()
        ],
    }


def read(packed: tarfile.TarFile, path: str) -> bytes:
    """One file of a package; raises KeyError where it is not there."""
    member = packed.extractfile(f"package/{path}")
    if member is None:
        raise KeyError(path)
    return member.read()


def differences() -> list[str]:
    """What is not as the record says, a line each; also a file that the record does not know."""
    recorded = {file["file"]: file["sha256"] for package in json.loads(RECORD.read_text()) for file in package["files"]}
    found = {path.name: sha256(path.read_bytes()) for path in VENDOR.iterdir() if path != RECORD}
    return [
        f"app/web/vendor/{name}: is not what VENDORED.json says"
        for name in sorted(recorded.keys() | found.keys())
        if recorded.get(name) != found.get(name)
    ]


def sha256(data: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
