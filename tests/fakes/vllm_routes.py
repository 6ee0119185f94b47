"""The list of vLLM's routes, by which the allow-list is judged."""

from pathlib import Path

LIST = Path(__file__).parents[1] / "unit" / "data" / "vllm_routes.txt"


def routes(method: str = "POST") -> set[str]:
    """The paths of a method, of every part of vLLM that can be switched on."""
    lines = (line.partition("#")[0].split() for line in LIST.read_text().splitlines())
    return {line[-1] for line in lines if line and (line[0] if line[1:] else "POST") == method}
