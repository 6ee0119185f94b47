"""The modules of the page one by one, and that the page has all that it needs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.web.assets import FOLDER
from tests.page.conftest import ROOT, Chat

DECODE = """async ([module, pieces]) => {
  const { SseDecoder } = await import(module);
  const decoder = new SseDecoder();
  return pieces.flatMap((piece) => decoder.feed(piece));
}"""

GROW = """async ([module, text, step]) => {
  const { GrowingMarkdown } = await import(module);
  const growing = new GrowingMarkdown();
  for (let end = step; end < text.length; end += step) growing.update(text.slice(0, end), false);
  const grown = growing.update(text, true).map(({ html }) => html);
  const whole = new GrowingMarkdown().update(text, true).map(({ html }) => html);
  return { grown, whole };
}"""

DRAFT = """async ([module, chunks]) => {
  const { Draft } = await import(module);
  const draft = new Draft(1000);
  for (const [now, chunk] of chunks) draft.apply(chunk, now);
  const { content, reasoning, toolCalls, finish, usage, ttft, speed, thinkingTime } = draft;
  return { content, reasoning, toolCalls, finish, usage, ttft, speed, thinkingTime };
}"""

EVENTS = "data: one\n\n: ping\n\nevent: end\ndata: two\ndata:  three\nid: 7\n\ndata\n\ndata: lost"


def decoded(chat: Chat, *pieces: str) -> list[tuple[str, str]]:
    events = chat.page.evaluate(DECODE, [chat.module("stream.js"), list(pieces)])
    return [(event["event"], event["data"]) for event in events]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_the_same_wherever_the_stream_is_cut_and_however_lines_end(chat: Chat, end: str) -> None:
    text = EVENTS.replace("\n", end)
    right = [("message", "one"), ("end", "two\n three"), ("message", "")]
    assert decoded(chat, text) == right
    assert decoded(chat, *text) == right
    for cut in range(len(text)):
        assert decoded(chat, text[:cut], "", text[cut:]) == right


def test_separators_of_javascript_are_no_line_ends_in_a_stream(chat: Chat) -> None:
    assert decoded(chat, "data: a\u2028b\u0085c\n\n") == [("message", "a\u2028b\u0085c")]


def test_characters_that_are_cut_between_two_reads_arrive_whole(chat: Chat) -> None:
    read = chat.page.evaluate(
        """async (module) => {
          const { openStream } = await import(module);
          const bytes = new TextEncoder().encode("data: 你好 😀\\n\\n");
          const served = new ReadableStream({
            start(out) {
              for (const byte of bytes) out.enqueue(new Uint8Array([byte]));
              out.close();
            },
          });
          const real = window.fetch;
          window.fetch = async () => new Response(served);
          const stream = await openStream("anything");
          window.fetch = real;
          const all = [];
          for await (const { data } of stream.events) all.push(data);
          return all;
        }""",
        chat.module("stream.js"),
    )
    assert read == ["你好 😀"]


TEXTS = {
    "prose": "One.\n\nTwo\nlines.\n\n# Title\n\nMore.\n",
    "tight and loose lists": "- a\n- b\n\n- c\n\n  more\n\ntext\n\n1. a\n\n2. b\n   - c\n\n3. d\n",
    "list, fence, list": "1. a\n\n```js\nlet x;\n```\n\n2. b\n",
    "fences": "```python\nx = 1\n\n\ny = 2\n```\n\n~~~\n```\n~~~\n\n    indented\n\n    code\n\nend",
    "open fence": "text\n\n```\nnever closed\n\n# no title\n",
    "tables": "| a | b |\n|---|:-:|\n| 1 | 2 |\n\nend\n\na | b\n--|--\n1 | 2\n",
    "quotes": "> a\n> b\n\n> c\nlazy\n\nend",
    "setext": "Title\n=====\n\nOther\n---\ntext\n\n---\n",
    "references": "See [it][1].\n\nMore.\n\n[1]: https://example.com/a\n\nEnd.\n",
    "rules and emphasis": "**bold\n\nnot** bold *a*\n\n***\n\n* item\n* item\n",
    "numbers that look like items": "- a\n\n2\n\n2. x\n\n-\n\n+ y\n",
    "no blank lines": "# a\ntext\n## b\n- c\n> d\n```\ne\n```\nf",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("step", [1, 3, 7])
def test_a_text_that_grew_is_what_it_is_when_parsed_at_once(chat: Chat, name: str, step: int) -> None:
    """The oracle of the incremental parser."""
    found = chat.page.evaluate(GROW, [chat.module("markdown.js"), TEXTS[name], step])
    assert found["grown"] == found["whole"]


def test_blocks_that_are_over_are_not_parsed_again(chat: Chat) -> None:
    kept = chat.page.evaluate(
        """async (module) => {
          const { GrowingMarkdown } = await import(module);
          const growing = new GrowingMarkdown();
          const before = growing.update("One.\\n\\nTwo.\\n\\nThree", false);
          const after = growing.update("One.\\n\\nTwo.\\n\\nThree and more.\\n", false);
          return before.map((block, i) => block === after[i]);
        }""",
        chat.module("markdown.js"),
    )
    assert kept == [True, False, False]


def draft(chat: Chat, *chunks: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = chat.page.evaluate(DRAFT, [chat.module("draft.js"), [list(each) for each in chunks]])
    return found


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def test_a_draft_adds_up_text_reasoning_and_times(chat: Chat) -> None:
    found = draft(
        chat,
        (1050, delta(role="assistant", content="")),
        (1100, delta(reasoning="hm")),
        (1400, delta(reasoning=", yes")),
        (1500, delta(content="So")),
        (2100, delta(content=".")),
        (2100, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        (2200, {"choices": [], "usage": {"completion_tokens": 11}}),
    )
    assert (found["content"], found["reasoning"], found["finish"]) == ("So.", "hm, yes", "stop")
    assert (found["ttft"], found["thinkingTime"], found["speed"]) == (100, 300, 10)


def test_the_speed_is_unknown_where_it_cannot_be_told(chat: Chat) -> None:
    assert draft(chat)["speed"] is None
    assert (
        draft(chat, (1100, delta(content="x")), (1100, {"choices": [], "usage": {"completion_tokens": 1}}))["speed"]
        is None
    )


def strings(chat: Chat, language: str) -> dict[str, str]:
    found: dict[str, str] = chat.page.evaluate(
        "async (module) => (await import(module)).default", chat.module(f"strings/{language}.js")
    )
    return found


def test_every_language_has_every_string_with_the_same_values_in_it(chat: Chat) -> None:
    english, chinese = strings(chat, "en"), strings(chat, "zh")
    assert english.keys() == chinese.keys()
    values = re.compile(r"\{\w+\}")
    for key, text in english.items():
        assert sorted(values.findall(text)) == sorted(values.findall(chinese[key])), key


def test_every_string_that_is_used_is_there_and_every_one_that_is_there_is_used(chat: Chat) -> None:
    code = "\n".join(path.read_text() for path in (FOLDER / "js").rglob("*.js") if path.parent.name != "strings")
    known = strings(chat, "en").keys()
    used = set(re.findall(r'["`]((?:app|list|welcome|box|turn|meta|say|set|status|reason)\.\w+)["`]', code))
    assert used <= known
    families = set(re.findall(r"`(\w+\.)\$\{", code))
    assert {key for key in known - used if not key.startswith(tuple(families))} == set()


def test_every_module_that_the_page_starts_with_is_preloaded_and_no_other(chat: Chat) -> None:
    loaded = set(chat.page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)"))
    named = set(
        chat.page.evaluate("[...document.querySelectorAll('[rel=modulepreload], script')].map((e) => e.href || e.src)")
    )
    assert {name for name in loaded if "/ui/assets/" in name and name.endswith(".js")} == named


def test_vendored_modules_are_what_the_record_says_and_have_a_licence() -> None:
    subprocess.run([sys.executable, "scripts/vendor_web.py", "--check"], cwd=ROOT, check=True)
    record = json.loads((FOLDER / "vendor" / "VENDORED.json").read_text())
    for package in record:
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert package["license"]
        assert any(file["file"].endswith("LICENSE.txt") for file in package["files"])


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    for path in [*Path(FOLDER).glob("*.html"), *FOLDER.glob("css/*"), *FOLDER.glob("js/**/*.js")]:
        addresses = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", path.read_text())
        assert not addresses, path
