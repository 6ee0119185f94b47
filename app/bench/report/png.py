"""SVG to PNG, by a Chromium that happens to be installed."""

import re
import shutil
import subprocess
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class NoPng(Exception):
    """There is no browser, or it wrote nothing."""


_SIZE = re.compile(r'<svg [^>]*width="(\d+)" height="(\d+)"')


def png(source: Path, file: Path) -> None:
    """Draws an SVG file of ours as a PNG of twice its size.

    Raises:
        NoPng: there is no Chromium, or it did not draw.
    """
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise NoPng(f"a PNG needs one of {', '.join(BROWSERS)}; the SVG is at {source}")
    size = _SIZE.search(source.read_text(encoding="utf-8"))
    if size is None:
        raise NoPng(f"{source} does not state its size")
    command = [
        browser, "--headless", "--disable-gpu", "--hide-scrollbars", "--no-sandbox", "--force-device-scale-factor=2",
        f"--window-size={size[1]},{size[2]}", f"--screenshot={file.resolve()}", source.resolve().as_uri(),
    ]  # fmt: skip
    # Without the sandbox it runs as root too, in a container; it opens nothing but a file of ours.
    try:
        subprocess.run(command, capture_output=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise NoPng(f"{browser}: {error}") from error
    if not file.exists():
        raise NoPng(f"{browser} wrote nothing")
