"""The page's server side: its files and their headers, the defaults of the settings panel, the lanes as they are now."""

import gzip
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.sim import SimSettings
from app.web.assets import FOLDER, TYPES, load
from tests.fakes.running_gateway import RunningGateway, gateway_on_sim, running_gateway, settings_for

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
CHAT: dict[str, Any] = {
    "model": "gpt-oss-20b",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "max_tokens": 12,
}


@pytest.fixture
async def gateway() -> AsyncIterator[RunningGateway]:
    async with gateway_on_sim() as (running, _):
        yield running


async def folder(gateway: RunningGateway) -> str:
    """The path of the assets, as the page names it."""
    page = (await gateway.http.get("/")).text
    found = re.search(r'src="(ui/assets/[0-9a-f]+)/js/main\.js"', page)
    assert found
    return f"/{found[1]}"


async def lane(gateway: RunningGateway, name: str = "lowlatency") -> dict[str, Any]:
    lanes = (await gateway.http.get("/ui/status")).json()["lanes"]
    return next(each for each in lanes if each["name"] == name)


async def test_the_page_is_html_without_inline_code_under_a_strict_policy(gateway: RunningGateway) -> None:
    page = await gateway.http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy == POLICY
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-cache"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style| style=| on\w+=", page.text)


async def test_every_file_that_the_page_names_is_there_with_its_type_and_may_be_kept(gateway: RunningGateway) -> None:
    page = (await gateway.http.get("/")).text
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(named) > 20
    for path in named:
        answer = await gateway.http.get(f"/{path}")
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == TYPES[path[path.rindex(".") :]]
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_the_page_and_its_files_come_as_nothing_new_to_those_who_have_them(gateway: RunningGateway) -> None:
    for path in ("/", f"{await folder(gateway)}/js/main.js"):
        first = await gateway.http.get(path)
        again = await gateway.http.get(path, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        changed = await gateway.http.get(path, headers={"if-none-match": '"other"'})
        assert changed.status_code == 200


@pytest.mark.parametrize(
    ("accepts", "compressed"),
    [("gzip, br", True), ("br;q=1, GZIP;q=0.5", True), ("identity", False), ("gzip;q=0", False), ("", False)],
)
async def test_files_are_compressed_for_those_who_take_it(
    gateway: RunningGateway, accepts: str, compressed: bool
) -> None:
    path = f"{await folder(gateway)}/vendor/vue.js"
    async with gateway.http.stream("GET", path, headers={"accept-encoding": accepts}) as answer:
        body = b"".join([piece async for piece in answer.aiter_raw()])
    assert answer.headers["vary"] == "accept-encoding"
    assert (answer.headers.get("content-encoding") == "gzip") is compressed
    right = (FOLDER / "vendor" / "vue.js").read_bytes()
    assert (gzip.decompress(body) if compressed else body) == right


async def test_a_head_request_gets_the_headers_alone(gateway: RunningGateway) -> None:
    for path in ("/", f"{await folder(gateway)}/js/main.js"):
        answer = await gateway.http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path",
    [
        "../../../config/settings.py",
        "..%2f..%2f..%2fconfig%2fsettings.py",
        "%2e%2e/assets.py",
        "/etc/passwd",
        "//etc/passwd",
        "..\\assets.py",
        "assets.py",
        "__init__.py",
        "js",
        "",
        "js/main.js/",
        "js/main.js%00",
    ],
)
async def test_nothing_but_the_folders_own_files_can_be_asked_for(gateway: RunningGateway, path: str) -> None:
    url = httpx.URL(gateway.url).copy_with(raw_path=f"{await folder(gateway)}/{path}".encode())
    answer = await gateway.http.get(url)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


async def test_an_old_page_that_is_still_open_gets_files_that_it_must_not_keep(gateway: RunningGateway) -> None:
    answer = await gateway.http.get("/ui/assets/0123456789abcdef/js/components/Status.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


def test_what_is_served_is_what_the_folder_has_of_the_known_types() -> None:
    assets = load()
    assert "index.html" in assets.files
    assert "vendor/VENDORED.json" in assets.files
    assert not [path for path in assets.files if path.endswith(".py")]
    assert b"@assets@" not in assets.index.body
    assert assets.digest == load().digest


async def test_the_defaults_are_those_of_the_settings(gateway: RunningGateway) -> None:
    config = (await gateway.http.get("/ui/config")).json()
    assert config["default_lane"] == "lowlatency"
    assert config["bounds"] == {"tokens": [1, 64], "delay_ms": [0, 1000]}
    assert config["lanes"][0] == {
        "name": "lowlatency",
        "buffer": {"strategy": "window", "tokens": 4, "delay_ms": 40.0},
        "simulated": True,
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", config["version"])


async def test_a_lane_with_a_real_engine_is_not_called_simulated() -> None:
    real = {"engines": [{"url": "http://127.0.0.1:9", "name": "real"}]}
    sim = {"engines": [{"url": "http://127.0.0.1:9", "name": "sim", "kind": "sim"}]}
    async with running_gateway(settings_for(lanes={"lowlatency": real, "batch": sim})) as gateway:
        config = (await gateway.http.get("/ui/config")).json()
    assert {each["name"]: each["simulated"] for each in config["lanes"]} == {"lowlatency": False, "batch": True}


async def test_the_status_shows_what_runs_and_then_what_has_ended() -> None:
    async with gateway_on_sim(SimSettings(ttft_ms=1, itl_ms=20, tokens=12)) as (gateway, _):
        await gateway.is_ready()
        before = await lane(gateway)
        async with gateway.http.stream("POST", "/v1/chat/completions", json=CHAT) as answer:
            pieces = answer.aiter_bytes()
            await anext(pieces)
            while_running = await lane(gateway)
            assert [piece async for piece in pieces]
        await gateway.settles()
        after = await lane(gateway)
    assert (before["running"], while_running["running"], after["running"]) == (0, 1, 0)
    assert while_running["engines"][0]["in_flight"] == 1
    assert while_running["engines"][0]["state"] == "closed"
    assert (before["minute"]["requests"], after["minute"]["requests"]) == (0, 1)
    assert after["minute"]["ttft"].keys() == {"p50", "p95", "p99"}
    assert after["minute"]["itl"]["p50"] > 1
    assert after["minute"]["flushes"]["first"] == 1
    assert after["minute"]["tokens_a_flush"] >= 1
    lengths = {name: len(values) for name, values in after["history"].items()}
    assert set(lengths.values()) == {30}
    assert [value for value in after["history"]["ttft_p50"] if value is not None]


async def test_the_status_names_no_address_of_an_engine(gateway: RunningGateway) -> None:
    answer = await gateway.http.get("/ui/status")
    assert answer.status_code == 200
    assert "127.0.0.1" not in answer.text


async def test_the_status_stream_sends_the_same_until_the_service_drains(gateway: RunningGateway) -> None:
    async with gateway.http.stream("GET", "/ui/status/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        events: list[str] = []
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
                gateway.service.drain()
    assert json.loads(events[0])["lanes"][0]["name"] == "lowlatency"
    assert events
