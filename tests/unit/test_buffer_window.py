"""When text leaves the window, and in what company."""

import json

import pytest

from gateway.buffer import TokenBuffer, Window
from gateway.telemetry import FlushReason
from tests.traces.script import (
    DONE,
    assemble,
    chunk,
    content,
    datas,
    dump,
    finish,
    reasoning,
    role,
    text,
    tool,
    usage,
    usage_only,
    wire,
)

STRATEGIES = ("window", "window-json")
LONG = Window(1000, 100.0)
DEFAULT = Window()


def play(
    *events: bytes, window: Window = LONG, strategy: str = "window", start: float = 0.0, gap: float = 0.0
) -> list[bytes]:
    """What leaves if these events come `gap` apart and nobody asks for what waits until `[DONE]`."""
    buffer = TokenBuffer(strategy=strategy, window=window)
    out = b""
    for number, event in enumerate([*events, DONE]):
        buffer.feed(wire(event), start + number * gap)
        out += buffer.take(start + number * gap)
    return datas(out)[:-1]


def started(window: Window = DEFAULT, gap: float = 0.01, index: int = 0) -> TokenBuffer:
    """A buffer whose first tokens have left and that expects one each `gap` seconds; the last came at 0."""
    buffer = TokenBuffer(window=window)
    for number in range(-4, 1):
        buffer.feed(wire(content("s", index)), number * gap)
        buffer.take(number * gap + 100)
    return buffer


class TestWhenTextLeaves:
    """Rules 2 to 5 of the window."""

    def test_the_role_chunk_does_not_use_up_the_first_token(self) -> None:
        """Case H18."""
        assert play(role(), content("a"), content("b"), content("c")) == [role(), content("a"), content("bc")]

    @pytest.mark.parametrize("first", [reasoning("a"), content("a"), tool(0, "", "id", "f"), text("a"), tool(0, "{")])
    def test_the_first_text_of_any_kind_leaves_at_once(self, first: bytes) -> None:
        """Case H18."""
        buffer = TokenBuffer(window=LONG)
        buffer.feed(wire(first), 0.0)
        assert buffer.take(0.0) == wire(first)
        assert buffer.stats.flushes == {FlushReason.FIRST: 1}

    def test_an_empty_text_is_not_the_first(self) -> None:
        """Case H18."""
        assert play(role(), content(""), content("a"), content("b"), content("c"))[1:] == [
            content(""),
            content("a"),
            content("bc"),
        ]

    def test_each_choice_has_its_own_first_token(self) -> None:
        buffer = started(LONG)
        buffer.feed(wire(content("a", 1)), 1.0)
        assert buffer.take(1.0) == wire(content("a", 1))

    def test_a_run_leaves_when_it_fills_the_window(self) -> None:
        buffer = started()
        for number in range(1, 4):
            buffer.feed(wire(content(str(number))), number * 0.01)
            assert not buffer.ready(number * 0.01)
        buffer.feed(wire(content("4")), 0.0399)
        assert buffer.take(0.0399) == wire(content("1234"))
        assert buffer.stats.flushes[FlushReason.TOKENS] == 1

    def test_a_run_leaves_when_its_oldest_token_is_as_old_as_the_delay(self) -> None:
        buffer = started()
        assert buffer.wake_at() is None
        buffer.feed(wire(content("a")), 0.01)
        buffer.feed(wire(content("b")), 0.02)
        wake = buffer.wake_at()
        assert wake == 0.01 + 0.04
        assert not buffer.ready(wake - 0.001)
        assert buffer.take(wake - 0.001) == b""
        assert buffer.ready(wake)
        assert buffer.take(wake) == wire(content("ab"))
        assert buffer.wake_at() is None
        assert buffer.stats.flushes[FlushReason.DELAY] == 4 + 1, "four of them at the start"

    def test_a_token_is_not_held_when_the_next_one_is_not_expected_in_time(self) -> None:
        """Case H18: 85 ms a token and nothing is ever held."""
        buffer = TokenBuffer()
        for number in range(8):
            buffer.feed(wire(content("a")), number * 0.085)
            assert buffer.take(number * 0.085) == wire(content("a"))
        assert buffer.stats.flushes == {FlushReason.FIRST: 1, FlushReason.LONE: 7}

    def test_at_three_milliseconds_a_token_four_leave_each_twelve(self) -> None:
        buffer = started(gap=0.003)
        for number in range(1, 13):
            buffer.feed(wire(content("a")), number * 0.003)
            assert buffer.take(number * 0.003) == (wire(content("aaaa")) if number % 4 == 0 else b"")

    def test_at_thirty_milliseconds_two_leave_together_without_a_timer(self) -> None:
        buffer = started(gap=0.03)
        for number in range(1, 9):
            buffer.feed(wire(content("a")), number * 0.03)
            assert buffer.take(number * 0.03) == (wire(content("aa")) if number % 2 == 0 else b"")

    @pytest.mark.parametrize("last", [reasoning("r"), finish(), finish("length", delta={"content": "c"}), tool(1, "{")])
    def test_a_boundary_lets_the_run_go_at_once_and_an_end_does_not_wait(self, last: bytes) -> None:
        """Case H17."""
        buffer = started(LONG)
        buffer.feed(wire(content("a"), content("b"), last), 0.01)
        left = datas(buffer.take(0.01))
        assert left[0] == content("ab")
        assert left[1:] == ([last] if b'finish_reason":null' not in last else [])
        assert buffer.stats.flushes[FlushReason.BOUNDARY] >= 1

    def test_one_pause_does_not_break_up_the_window(self) -> None:
        buffer = started()
        buffer.feed(wire(content("a")), 1.0)
        assert not buffer.ready(1.0), "the gaps before were short"

    def test_a_window_of_one_token_holds_nothing(self) -> None:
        events = [content(character) for character in "abcdef"]
        assert play(*events, window=Window(1, 10.0), gap=0.001) == events

    def test_a_window_without_delay_holds_nothing_past_the_moment(self) -> None:
        events = [content(character) for character in "abcdef"]
        assert play(*events, window=Window(100, 0.0), gap=0.001) == events

    def test_tokens_are_counted_by_what_the_engine_says_not_by_events(self) -> None:
        ids = [content("a", token_ids=[1, 2]), content("b", token_ids=[3, 4])]
        logprobs = [content("a", logprobs={"content": [{"token": "a"}] * 2})] * 2
        totals = [content("a", top={"usage": usage(1, count)}) for count in (2, 4)]
        for pair in (ids, logprobs, totals):
            buffer = TokenBuffer(window=Window(4, 10.0))
            buffer.feed(wire(content("s", top={"usage": usage(1, 0)}) if pair is totals else content("s")), 0.0)
            buffer.take(0.0)
            before = buffer.stats.tokens
            buffer.feed(wire(pair[0]), 0.01)
            assert not buffer.ready(0.01)
            buffer.feed(wire(pair[1]), 0.02)
            assert len(datas(buffer.take(0.02))) == 1
            assert buffer.stats.tokens - before == 4

    def test_interleaved_choices_do_not_defeat_the_window(self) -> None:
        """Case H17: choice 1 finishes while choice 0 goes on."""
        firsts = [content("s", 0), content("s", 1)]
        events = [content(letter, index) for letter in "abcd" for index in (0, 1)]
        assert play(*firsts, *events, window=Window(4, 10.0)) == [*firsts, content("abcd", 0), content("abcd", 1)]

    def test_while_the_client_does_not_read_runs_grow(self) -> None:
        """Case H57."""
        buffer = started()
        buffer.reader_busy = True
        for number in range(50):
            buffer.feed(wire(content("x")), number * 0.01)
        assert buffer.wake_at() is None
        buffer.reader_busy = False
        assert buffer.ready(0.5)
        assert buffer.take(0.5) == wire(content("x" * 50))


class TestWhatIsMerged:
    """Rule 1 of the window: neighbours, and what they must share."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_content"])
    def test_each_text_field_keeps_its_name(self, name: str, strategy: str) -> None:
        """Case H19."""
        events = [chunk({name: letter}) for letter in "abcdef"]
        assert play(role(), *events, strategy=strategy) == [role(), events[0], chunk({name: "bcdef"})]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_change_of_kind_lets_the_run_go(self, strategy: str) -> None:
        """Case H16."""
        events = [reasoning("r9"), reasoning("r10"), reasoning("."), content("c1"), content("c2"), reasoning("r")]
        assert play(*events, strategy=strategy) == [
            events[0],
            reasoning("r10."),
            content("c1c2"),
            reasoning("r"),
        ]

    def test_a_chunk_of_two_kinds_goes_by_itself(self) -> None:
        """Case H16."""
        call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
        both = chunk({"reasoning": "r9", "tool_calls": [call]})
        later = chunk({"content": "c2", "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})
        two = chunk({"content": "\n", "reasoning": ".\n"})
        events = [reasoning("a"), reasoning("b"), both, reasoning("r10"), content("c1"), later, two]
        assert play(*events) == events

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_parallel_tool_calls_stay_apart(self, strategy: str) -> None:
        """Case H15."""
        events = [
            tool(0, "", "a", "f"),
            tool(1, "", "b", "g"),
            tool(0, '{"x"'),
            tool(1, '{"y"'),
            tool(0, ":1}"),
            tool(1, ":2}"),
        ]
        out = play(*events, strategy=strategy)
        assert out == events
        assert [kind for kind, _ in assemble(out)["stories"][0]].count("tool 0 name") == 1

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_arguments_of_one_call_are_merged_without_id_or_name(self, strategy: str) -> None:
        """Cases H23, H31: an index is never changed, a name never invented."""
        events = [
            tool(0, "", "a", "f"),
            *(tool(0, piece) for piece in ['{"', "city", '":', '"Paris', '"']),
            tool(1, "}"),
        ]
        assert play(*events, strategy=strategy) == [events[0], tool(0, '{"city":"Paris"'), tool(1, "}")]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_call_that_says_its_id_name_or_more_each_time_is_not_merged_since_clients_add_them_up(
        self, strategy: str
    ) -> None:
        """Cases H15, H23."""
        for call in ({"id": "a"}, {"function": {"arguments": "x", "name": "f"}}, {"foo": "bar"}):
            entry = {"index": 0, "function": {"arguments": "x"}, **call}
            events = [chunk({"tool_calls": [entry]})] * 5
            assert play(*events, strategy=strategy) == events
        typed = chunk({"tool_calls": [{"index": 0, "id": None, "type": "function", "function": {"arguments": "x"}}]})
        assert play(*[typed] * 5, strategy=strategy) == [typed, typed.replace(b'"x"', b'"xxxx"')]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_arrays_are_concatenated_and_a_cumulative_usage_keeps_the_last(self, strategy: str) -> None:
        """Case H22."""
        events = [
            content(
                letter, token_ids=[number], logprobs={"content": [{"token": letter}]}, top={"usage": usage(5, number)}
            )
            for number, letter in enumerate("abcd", 1)
        ]
        merged = content(
            "bcd",
            token_ids=[2, 3, 4],
            logprobs={"content": [{"token": letter} for letter in "bcd"]},
            top={"usage": usage(5, 4)},
        )
        assert play(*events, strategy=strategy) == [events[0], merged]

    def test_the_four_arrays_of_completions_are_concatenated(self) -> None:
        def piece(letter: str, at: int) -> bytes:
            arrays = {
                "text_offset": [at],
                "token_logprobs": [None],
                "tokens": [letter],
                "top_logprobs": [{letter: -1.5}],
            }
            return text(letter, logprobs=arrays)

        out = play(piece("a", 0), piece("b", 1), piece("c", 2))
        arrays = {
            "text_offset": [1, 2],
            "token_logprobs": [None, None],
            "tokens": ["b", "c"],
            "top_logprobs": [{"b": -1.5}, {"c": -1.5}],
        }
        assert out == [piece("a", 0), text("bc", logprobs=arrays)]

    def test_tokens_without_text_join_what_is_held_and_never_wait_alone(self) -> None:
        silent = chunk({}, token_ids=[9])
        events = [content("s", token_ids=[0]), silent, content("a", token_ids=[1]), silent, content("b", token_ids=[2])]
        assert play(*events) == [events[0], silent, content("ab", token_ids=[1, 9, 2])]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_text_that_is_empty_joins_and_an_empty_delta_goes_by_itself(self, strategy: str) -> None:
        first = [content("s")] * 3
        events = [content("a"), content(""), content("b"), chunk({}), content("c")]
        out = play(*first, *events, strategy=strategy, window=Window(6, 10.0))
        assert out == [content("s"), content("ssab"), chunk({}), content("c")]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (content("a", top={"n": 1}), content("b", top={"n": 2})),
            (content("a", top={"n": 1}), content("b", top={"n": True})),
            (content("a", x=1), content("b")),
            (content("a", x=None), content("b")),
            (content("a", logprobs=None), content("b", logprobs={"content": []})),
            (content("a", token_ids=None), content("b", token_ids=[1])),
            (content("a", top={"usage": None}), content("b", top={"usage": usage(1, 1)})),
            (chunk({"content": "a", "reasoning": None}), chunk({"content": "b"})),
            (content("a", logprobs={"content": [], "x": 1}), content("b", logprobs={"content": [], "x": 2})),
        ],
    )
    def test_chunks_that_differ_in_anything_else_stay_apart(self, one: bytes, other: bytes, strategy: str) -> None:
        """Case H19: no field appears, vanishes or changes."""
        assert play(content("s"), one, other, one, strategy=strategy) == [content("s"), one, other, one]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_unknown_keys_that_are_equal_do_not_hinder(self, strategy: str) -> None:
        """Case H19."""
        events = [content(letter, x={"y": [1]}, top={"foo": "bar", "huge": 2**70}) for letter in "abcd"]
        equal = [content(letter, x={"y": [1]}, top={"foo": "bar"}) for letter in "abcd"]
        assert play(*equal, strategy=strategy) == [equal[0], content("bcd", x={"y": [1]}, top={"foo": "bar"})]
        assert play(*events, strategy=strategy) == events, "a number that is too long for 64 bits is left as it is"

    def test_unknown_keys_in_a_delta_are_never_merged_since_clients_add_them_up(self) -> None:
        """Case H19."""
        events = [chunk({"content": letter, "foo": "bar"}) for letter in "abc"]
        assert play(*events) == events
        harmless = [chunk({"content": letter, "refusal": None}) for letter in "abc"]
        assert play(*harmless) == [harmless[0], chunk({"content": "bc", "refusal": None})]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize(
        "event",
        [
            b'{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"\xf0\x9f"}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"y"}}]}',
            b'{"choices": [ ], "prompt_filter_results": []}',
            b'{"choices":null}',
            b'{"nothing":1}',
            b'{"choices":[{"index":0}]}',
            b'{"choices":[{"index":0,"delta":null}]}',
            b'{"choices":[{"delta":{"content":"x"}}]}',
            b'{"choices":[{"index":"0","delta":{"content":"x"}}]}',
            b'{"choices":[{"index":0,"delta":{"content":["x"]}}]}',
            b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0},{"index":1}]}}]}',
            b'{"choices":[7]}',
        ],
    )
    def test_what_is_not_understood_goes_byte_for_byte_after_what_waits(self, event: bytes, strategy: str) -> None:
        """Cases H20, H43."""
        events = [content("s"), content("a"), content("b"), event, event, content("c"), content("d")]
        assert play(*events, strategy=strategy) == [content("s"), content("ab"), event, event, content("cd")]

    def test_a_usage_chunk_leaves_after_the_text_and_its_totals_are_kept(self) -> None:
        """Cases H20, H22."""
        buffer = TokenBuffer(window=LONG)
        totals = [content("t", top={"usage": usage(5, count)}) for count in range(1, 11)]
        buffer.feed(wire(*totals, finish(), usage_only(5, 10), DONE), 0.0)
        assert datas(buffer.take(0.0))[1] == content("t" * 9, top={"usage": usage(5, 10)})
        assert (buffer.stats.prompt_tokens, buffer.stats.completion_tokens, buffer.stats.tokens) == (5, 10, 10)

    def test_running_totals_are_per_choice_and_added_up(self) -> None:
        """Case H22."""
        buffer = TokenBuffer()
        for index, count in ((0, 1), (1, 1), (0, 2), (1, 2), (0, 3)):
            buffer.feed(wire(content("t", index, top={"usage": usage(5, count)})), 0.0)
        assert (buffer.stats.completion_tokens, buffer.stats.tokens) == (5, 5)

    def test_a_run_of_one_leaves_byte_for_byte(self) -> None:
        odd = b'{ "choices" : [{"delta": {"content":"\\u0061\\/"}, "index":0,  "x":1.0e2}]}'
        assert play(odd, odd) == [odd, odd]

    def test_a_text_that_looks_like_json_is_text(self) -> None:
        """Case H31: literal text is untouched."""
        texts = ['"}', "\\", '\\"', '{"content":"', "<|channel|>commentary", '"content":"x"', "\u2028", "\n", "🚀", ""]
        for strategy in STRATEGIES:
            out = play(content("s"), content("s"), *map(content, texts), strategy=strategy)
            assert out == [content("s"), content("s" + "".join(texts))]

    def test_a_character_that_is_cut_between_chunks_is_not_glued(self) -> None:
        """Case H14."""
        halves = [content("x").replace(b"x", b"\xf0\x9f"), content("x").replace(b"x", b"\x9a\x80")]
        escapes = [content("x").replace(b"x", b"\\ud83d"), content("x").replace(b"x", b"\\ude80")]
        for pair in (halves, escapes):
            assert play(content("s"), content("a"), content("b"), *pair, content("c"), content("d")) == [
                content("s"),
                content("ab"),
                *pair,
                content("cd"),
            ]

    def test_a_chunk_whose_text_comes_before_its_key_twice_is_still_read_right(self) -> None:
        decoy = [dump({"content": letter, "choices": [{"index": 0, "delta": {"content": letter}}]}) for letter in "abc"]
        assert play(*decoy) == decoy
        steady = [dump({"content": "d", "choices": [{"index": 0, "delta": {"content": letter}}]}) for letter in "abcde"]
        assert assemble(play(*steady))["stories"][0] == [["content", "abcde"]]
        assert len(play(*steady)) == 2

    def test_another_field_with_the_name_of_the_text_is_not_taken_for_it(self) -> None:
        def twin(other: str, letter: str) -> bytes:
            return dump({"content": other, "choices": [{"index": 0, "delta": {"content": letter}}]})

        events = [twin("d", "a"), twin("d", "a"), twin("d", "a"), twin("e", "a"), twin("d", "a")]
        assert play(*events) == [twin("d", "a"), twin("d", "aa"), twin("e", "a"), twin("d", "a")]

    def test_a_chunk_whose_head_and_tail_overlap_is_garbage(self) -> None:
        buffer = started()
        buffer.feed(wire(content("").replace(b'""', b'"', 1)), 0.01)
        assert str(buffer.failure) == "the engine sent something that is not JSON"


class TestChunksThatLookLikeTheOthers:
    """What begins and ends like a plain chunk, but is none."""

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize(
        "middles",
        [
            (b'a",["b', b"c", b'd"],"e'),  # together a list of three, one of them no text
            (b'a","b', b"c"),
            (b"a\\", b',"b'),
            (b'a"', b'"b'),
        ],
    )
    def test_texts_that_are_only_together_what_json_allows_are_garbage_each_for_itself(
        self, middles: tuple[bytes, ...], strategy: str
    ) -> None:
        head, tail = content("@").split(b"@")
        buffer = TokenBuffer(strategy=strategy, window=LONG)
        for number in range(3):
            buffer.feed(wire(content("x")), float(number))
        buffer.feed(b"".join(wire(head + middle + tail) for middle in middles), 3.0)
        buffer.finish(3.0)
        assert buffer.failure is not None
        said, *ended = datas(buffer.take(3.0))[1:]
        assert said.startswith(head + b"xx")
        assert len(ended) == 1
        assert b'"error"' in ended[0]

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_chunk_whose_logprobs_hold_a_number_that_would_change_goes_as_it_came(self, strategy: str) -> None:
        def chance(number: int) -> bytes:
            chosen = json.loads(content("a"))
            chosen["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -1.5, "bytes": [number]}]}
            return dump(chosen)

        odd = chance(1123456789012345678901238)
        assert odd in play(chance(1), chance(2), odd, chance(3), strategy=strategy)


@pytest.mark.parametrize("text", ['x","y', 'x","content":"y', '"', 'x\\"'])
def test_what_only_looks_like_a_text_between_the_usual_ends_is_garbage_for_the_quick_way_too(text: str) -> None:
    ends = content("#").split(b"#")
    ways = []
    for strategy in STRATEGIES:
        buffer = TokenBuffer(strategy=strategy, window=LONG)
        for word in ("a", "b", "c"):
            buffer.feed(wire(content(word)), 0.0)
        buffer.feed(wire(ends[0] + text.encode() + ends[1]), 0.0)
        buffer.finish(1.0)
        ways.append((buffer.take(1.0), type(buffer.failure)))
    assert ways[0] == ways[1]
