from __future__ import annotations

import io

from dmltune.report.log_lines import plain
from dmltune.search.state import Event, SearchState


def test_a_log_has_a_line_for_every_start_and_end_and_few_in_between(board: SearchState) -> None:
    stream, seconds = io.StringIO(), [0.0]
    watch = plain(stream, now=lambda: seconds[0])
    watch(Event("message", None, "rendering glyphs", board))
    watch(Event("started", board.rows[2], "", board))
    for second in range(1, 25):
        seconds[0] = float(second)
        watch(Event("progress", board.rows[2], "", board))
    watch(Event("finished", board.rows[2], "", board))
    watch(Event("finished", board.rows[4], "", board))
    watch(Event("started", board.rows[1], "", board))
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
