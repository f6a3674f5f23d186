from __future__ import annotations

import io

from dmltune.report.search_progress import plain
from dmltune.search.state import SearchEvent, SearchState


def test_a_log_has_a_line_for_every_start_and_end_and_few_in_between(state: SearchState) -> None:
    stream, seconds = io.StringIO(), [0.0]
    watch = plain(stream, now=lambda: seconds[0])
    watch(SearchEvent("message", None, "rendering glyphs", state))
    watch(SearchEvent("started", state.rows[2], "", state))
    for second in range(1, 25):
        seconds[0] = float(second)
        watch(SearchEvent("progress", state.rows[2], "", state))
    watch(SearchEvent("finished", state.rows[2], "", state))
    watch(SearchEvent("finished", state.rows[4], "", state))
    watch(SearchEvent("started", state.rows[1], "", state))
    lines = stream.getvalue().splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        "rendering glyphs",
        "trial 2: lambda=1.23e-5 proxies=16 pool_size=24",
        "trial 2: step 600/600, MAP@R 42.1 %, best 42.6 %",
        "trial 2: step 600/600, MAP@R 42.1 %, best 42.6 %",
        "trial 2 done at step 600/600, MAP@R 42.1 %, best 42.6 %",
        "trial 4 failed at step 300/600, MAP@R – %, best – %: the loss is NaN",
        "trial 1 (baseline): references=batch",
    ]
    assert lines[2].startswith("[   10s]")


def test_a_reason_with_control_characters_is_one_harmless_line(state: SearchState) -> None:
    stream = io.StringIO()
    state.rows[4].reason = "\x1b[2J\udcff\nsecond line"
    plain(stream)(SearchEvent("finished", state.rows[4], "", state))
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r": \x1b[2J\udcff")
