"""The flame graph: what is told of folded stacks, and how it is laid out."""

from xml.etree import ElementTree as ET

from benchmarks.load.flames import LOOP_NAME, NARROWEST, Box, boxes, drawn, fold, kind, told

BASE = "0x7f07 (libc.so.6);<module> (tokenlane:10);Runner.run (asyncio/runners.py:118)"
LOOP = "run_forever (loop.c:33192);uv__io_poll (linux.c:1546);Py_XDECREF (object.h:602)"


def test_a_stack_begins_above_the_event_loop_and_knows_no_lines() -> None:
    stack = f"{BASE};{LOOP};Relay.received (gateway/relay.py:98);loads (orjson.so)"
    assert told(stack.split(";")) == ["Relay.received (gateway/relay.py)", "loads (orjson.so)"]


def test_a_stack_of_the_event_loop_alone_is_its_own() -> None:
    assert told(f"{BASE};{LOOP}".split(";")) == [LOOP_NAME]
    assert told(BASE.split(";")) == [LOOP_NAME]


def test_what_the_event_loop_does_for_a_caller_is_one_frame() -> None:
    stack = f"{BASE};write (app/line.py:40);write (loop.c:1);try_write (loop.c:2);write (libc.so.6)"
    assert told(stack.split(";")) == ["write (app/line.py)", LOOP_NAME, "write (libc.so.6)"]


def test_stacks_add_up_whatever_the_line_and_without_other_threads() -> None:
    root = fold(
        [
            f"{BASE};f (app/a.py:1) 3",
            f"{BASE};f (app/a.py:9);g (app/a.py:4) 2\n",
            "_worker (concurrent/futures/thread.py:81) 7",
            "",
        ]
    )
    assert root.samples == 5
    assert root.calls["f (app/a.py)"].samples == 5
    assert root.calls["f (app/a.py)"].calls["g (app/a.py)"].samples == 2


def test_frames_lie_above_their_callers_and_narrow_ones_leave_a_gap() -> None:
    root = fold([f"{BASE};a (app/a.py:1);b (app/a.py:2) 600", f"{BASE};aa (x.so) 1", f"{BASE};c (c.py:1) 399"])
    assert NARROWEST > 0.001
    assert [(box.name, round(box.left, 9), box.width, box.level) for box in boxes(root)] == [
        ("a (app/a.py)", 0, 0.6, 0),
        ("b (app/a.py)", 0, 0.6, 1),
        ("c (c.py)", 0.601, 0.399, 0),
    ]


def test_frames_are_told_apart_by_whose_they_are() -> None:
    names = ["Relay.received (gateway/relay.py)", "FastAPI.__call__ (fastapi/applications.py)", "write (libc.so.6)"]
    assert [kind(name) for name in names] == ["tokenlane", "other Python", "native code"]


def test_the_picture_is_xml_that_tells_each_frame_with_its_share() -> None:
    pictures = [drawn("a < b", [Box("f.<locals>.g (app/a.py)", 0.25, 0.5, 0)]), drawn("nothing", [])]
    trees = [ET.fromstring(picture) for picture in pictures]  # noqa: S314 - our own
    titles = [[title.text for title in tree.iter("{http://www.w3.org/2000/svg}title")] for tree in trees]
    assert titles == [["f.<locals>.g (app/a.py): 50.0%"], []]
