"""Congestion controls that are Python classes in files of the user's own."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab.errors import BadInput, RtclabError, ScenarioError
from rtclab.scenario import Scenario

CONSTANT = """
    class Control:
        def __init__(self, bounds):
            self.rate = bounds.max + bounds.audio
        def on_timeout(self, now, sender):
            return self.rate
        def on_feedback(self, now, feedback):
            return self.rate
"""
AFTER_20 = """
    import math, multiprocessing, os, subprocess, time
    class Control:
        def __init__(self, bounds):
            self.rate, self.calls = bounds.start, 0
        def on_feedback(self, now, feedback):
            self.calls += 1
            return self.act() if self.calls > 20 else self.rate
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file of a control and returns the control's name."""
    monkeypatch.chdir(tmp_path)

    def write(code: str, *, file: str = "mine.py", name: str = "Control") -> str:
        (tmp_path / file).write_text(textwrap.dedent(code))
        return f"{tmp_path / file}:{name}"

    return write


def call(control: str, **changes: object) -> Scenario:
    """A call of 10 s in both directions."""
    wanted = {"duration": "10 s", "control": control} | {
        key: value for key, value in changes.items() if key != "set"
    }
    return Scenario.load("first-call", wanted | dict(changes.get("set", {})))  # type: ignore[call-overload]


def values(trace: Any, name: str, flow: str = "alice->bob") -> list[float]:
    rows = trace.table("controller").filter(pl.col("name") == name, pl.col("flow") == flow)
    return rows["value"].to_list()


def test_a_class_that_sends_at_one_rate_leaves_the_same_bytes_as_the_control_in_rust(write: Write) -> None:
    ours, own = rtclab.simulate(call("fixed")), rtclab.simulate(call(write(CONSTANT)))
    for table in sorted(set(ours.tables) - {"controller"}):
        assert ours.table(table).equals(own.table(table)), table
    assert ours.table("packets").height > 1000


@pytest.mark.parametrize("traces", [True, False])
def test_the_processor_time_of_a_control_in_a_process_of_its_own_is_unknown(
    write: Write, tmp_path: Path, traces: bool
) -> None:
    ours, own = (
        rtclab.Experiment(call(name), repeats=1, traces=traces).run(out=tmp_path, jobs=1).processor_s
        for name in ("fixed", write(CONSTANT))
    )
    assert ours is not None
    assert own is None


def test_its_options_and_observations_reach_it_and_the_trace(write: Write) -> None:
    name = write("""
        class Control:
            def __init__(self, bounds, rate, names=("x",)):
                self.rate, self.names = rate, names
            def on_feedback(self, now, feedback):
                return self.rate
            def observe(self):
                return {f"{name}_count": len(self.names) for name in self.names}
    """)
    options = {"congestion_control.options": {"rate": 4e5, "names": ["a", "bc"]}}
    trace = rtclab.simulate(call(name, set=options))
    assert set(values(trace, "a_count")) == set(values(trace, "bc_count")) == {2.0}
    assert values(trace, "target_bps")[-1] == 4e5
    assert values(rtclab.simulate(call(f"{name},rate=500e3")), "target_bps")[-1] == 5e5


WATCHES = """
    import json, pathlib
    class Control:
        stack = "chrome-156-ccfb"
        interval = 0.1
        def __init__(self, bounds, file):
            self.file, self.rate, self.rows = pathlib.Path(file), bounds.max, []
            self.counts = dict(sent=0, reported=0, timeouts=0, reports=0, lost=0)
        def on_sent(self, now, packet):
            self.counts["sent"] += 1
        def on_timeout(self, now, sender):
            self.counts["timeouts"] += 1
        def on_report(self, now, report):
            self.counts["reports"] += 1
        def on_feedback(self, now, feedback):
            packets, columns = feedback.packets, feedback.columns
            self.counts["reported"] += sum(not p.lost_before for p in packets)
            self.counts["lost"] += sum(p.received is None and not p.lost_before for p in packets)
            assert [p.sent for p in packets] == columns["sent"].tolist()
            assert [p.size for p in packets] == columns["size"].tolist()
            received = columns["received"].tolist()
            assert [p.received for p in packets] == [x if x == x else None for x in received]
            names = ("received_rate", "delay", "min_delay", "base_delay", "queuing_delay", "loss")
            names += ("marked", "rtt")
            self.rows.append([now, feedback.in_flight] + [getattr(feedback, name) for name in names])
            self.file.write_text(json.dumps([self.rows, self.counts]))
            return self.rate
"""


def test_what_feedback_says_follows_from_the_network(write: Write, tmp_path: Path) -> None:
    """1 Mbit/s, 30 ms each way and no loss: the limits of each value are those of the network."""
    import json

    name = write(WATCHES)
    changes = {
        "link.up.capacity": "1 Mbit/s",
        "link.up.delay": "15 ms",
        "link.down.delay": "15 ms",
        "participants.alice.control": f"{name},file=seen.json",
        "control": "goog-cc",
    }
    trace = rtclab.simulate(Scenario.load("first-call", {"duration": "10 s"} | changes))
    rows, counts = json.loads((tmp_path / "seen.json").read_text())
    until_ns = 1e9 * rows[-1][0]
    packets = trace.table("packets").filter(
        pl.col("flow") == "alice->bob", pl.col("protocol") == "rtp", pl.col("sent_ns") <= until_ns
    )
    assert counts["sent"] == packets.height > 1000
    assert counts["reported"] <= counts["sent"]
    assert counts["timeouts"] == pytest.approx(100, abs=15)
    assert 3 < counts["reports"] < 100
    largest = 1250 * 8
    for _, in_flight, rate, delay, least, base, queuing, loss, marked, rtt in rows:
        assert in_flight >= 0
        assert rate is None or rate <= 1e6 + 2 * largest / 0.5
        assert least is None or (0.030 <= base <= least <= delay)
        assert queuing is None or queuing == pytest.approx(delay - base)
        assert loss is None or 0 <= loss <= 1
        assert marked in (0.0, None)
        assert rtt is None or rtt >= 0.060
    known = [row[2] for row in rows if row[0] > 5]
    assert sum(known) / len(known) == pytest.approx(1e6, rel=0.05)  # it sends at 2.5 Mbit/s


@pytest.mark.parametrize(("window", "kbps"), [("None", (900, 2600)), ("6000", (200, 480))])
def test_a_window_limits_the_rate_to_one_window_in_a_round_trip(
    window: str, kbps: tuple[float, float], write: Write
) -> None:
    """6000 bytes in 100 ms are 480 kbit/s. Later the pacer's queue is full and leaves at once."""
    name = write(f"""
        from rtclab.control import Decision
        class Control:
            stack = "chrome-156-ccfb"
            def __init__(self, bounds):
                self.max = bounds.max
            def on_feedback(self, now, feedback):
                return Decision(self.max, window={window}, pacing_rate=3e6, pacing_burst=0)
    """)
    trace = rtclab.simulate(call(name, set={"link.up.delay": "50 ms", "link.up.capacity": "20 Mbit/s"}))
    sent = trace.table("packets").filter(pl.col("kind") == "video", pl.col("sent_ns").is_between(2e9, 6e9))
    least, most = kbps
    assert least < sent["size_bytes"].sum() * 8 / 4 / 2 / 1000 < most


def test_a_decision_can_probe_and_answer_marks(write: Write) -> None:
    name = write("""
        from rtclab.control import Decision, Probe
        class Control:
            stack = "chrome-156-ccfb"
            def __init__(self, bounds):
                self.max, self.marked, self.probed, self.calls = bounds.max, 0, 0, 0
            def on_sent(self, now, packet):
                self.probed += packet.probe is not None
            def on_feedback(self, now, feedback):
                self.calls += 1
                self.marked += sum(p.ecn == "ce" for p in feedback.packets)
                probes = [Probe(1e6)] if self.calls == 50 else []
                return Decision(self.max, ecn="ect1", probes=probes)
            def observe(self):
                return dict(marked=self.marked, probed=self.probed)
    """)
    changes = {"link.up.capacity": "1 Mbit/s", "link.up.queue": {"aqm": "dualpi2"}}
    trace = rtclab.simulate(call(name, set=changes))
    assert 5 <= values(trace, "probed")[-1] < 50
    assert values(trace, "marked")[-1] > 100  # 2.5 Mbit/s of ECT(1) into 1 Mbit/s


BAD = {
    "nan": ("def act(self): return math.nan", "NaN; expected a number of 0 to 1e11 bit/s"),
    "nothing": ("def act(self): pass", "None; expected a number of 0 to 1e11 bit/s"),
    "negative": ("def act(self): return -5", "-5; expected a number of 0 to 1e11 bit/s"),
    "infinite": ("def act(self): return math.inf", "inf; expected a number of 0 to 1e11 bit/s"),
    "text": ("def act(self): return 'fast'", "'fast'; expected a number of 0 to 1e11 bit/s"),
    "true": ("def act(self): return True", "True; expected a number of 0 to 1e11 bit/s"),
    "raises": ("def act(self): return 1 / 0", "ZeroDivisionError: division by zero"),
    "allocates": (
        "def act(self):\n    x = []\n    while True: x.append(bytes(10**8))",
        "MemoryError",
    ),
    "forks": ("def act(self): os.fork()", "PermissionError: a congestion control cannot start processes"),
    "starts": (
        "def act(self): subprocess.run(['true'])",
        "PermissionError: a congestion control cannot start processes",
    ),
    "spawns": (
        "def act(self): multiprocessing.get_context('spawn').Process(target=print).start()",
        "PermissionError: a congestion control cannot start processes",
    ),
    "exits": ("def act(self): raise SystemExit", "SystemExit"),
    "is killed": ("def act(self): os.kill(os.getpid(), 9)", "its process ended with signal 9"),
    "observes a text": (
        "def act(self): return 1e5\ndef observe(self): return dict(a=None, state='x')",
        "the value of state is x; expected a number or None",
    ),
    "observes": (
        "def act(self): return 1e5\ndef observe(self): return 3",
        "expected a dict from name to number",
    ),
    "loops": ("def act(self):\n    while True: pass", "NeverAnswers: it has not answered for 1 s"),
    "sleeps": ("def act(self): time.sleep(1e6)", "NeverAnswers: it has not answered for 1 s"),
    "loops in C": ("def act(self): return sum(iter(int, 1))", "could not be interrupted"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_control_that_misbehaves_is_named_with_file_and_line(
    what: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTCLAB_ANSWER_S", "1")
    code, expected = BAD[what]
    name = write(textwrap.dedent(AFTER_20) + textwrap.indent(code, "    "))
    with pytest.raises(RtclabError) as caught:
        _in_a_thread(lambda: rtclab.simulate(call(name)))
    text = str(caught.value)
    assert expected in text
    if what != "is killed":
        assert f'File "{name.partition(":")[0]}", line ' in text


def _in_a_thread(what: Callable[[], object]) -> None:
    """Calls a function in a thread of its own, whose process for controls is new."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        executor.submit(what).result()


NOT_LOADED = {
    "syntax": ("class Control(", "SyntaxError"),
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "no class": ("class Other: pass", "has no class `Control`\n  hint: its classes: Other"),
    "no method": (
        "class Control: pass",
        "expected a method `on_feedback(now, feedback)` or `on_packet(packet)`",
    ),
    "arguments": (
        "class Control:\n    def __init__(self, bounds, gain): pass\n    def on_feedback(self, f): return 1",
        "too many positional arguments; expected on_feedback(self, now, feedback)\n  File",
    ),
    "no bounds": (
        "class Control:\n    def __init__(self): pass\n    def on_feedback(self, now, f): pass",
        "got an unexpected keyword argument 'gain'",
    ),
    "unknown option": (CONSTANT, "got an unexpected keyword argument 'gain'"),
    "no interval": (
        "class Control:\n    interval = 'often'\n    def __init__(self, bounds, gain): pass\n"
        "    def on_feedback(self, n, f): return 1",
        "interval is 'often'; expected the time between two calls of on_timeout",
    ),
    "init": (
        "class Control:\n    def __init__(self, bounds, gain): int('x')\n"
        "    def on_feedback(self, n, f): return 1",
        "line 2, in __init__",
    ),
    "stack": (
        "class Control:\n    stack = 'chrome-1'\n    def __init__(self, bounds, gain): pass\n"
        "    def on_feedback(self, n, f): return 1",
        "is `chrome-1`; expected one of chrome-27",
    ),
}


@pytest.mark.parametrize("what", NOT_LOADED)
def test_a_control_that_cannot_be_made_is_an_error_before_anything_runs(what: str, write: Write) -> None:
    code, expected = NOT_LOADED[what]
    with pytest.raises(RtclabError) as caught:
        rtclab.simulate(call(f"{write(code)},gain=2"))
    assert expected in str(caught.value)


FEEDBACK = "    def on_feedback(self, now, feedback): return self.rate\n"
SHAPES = {
    "no __init__": "class Control:\n    rate = 4e5\n" + FEEDBACK,
    "no __init__, inherited": "class Base:\n    rate = 4e5\n" + FEEDBACK + "class Control(Base): pass\n",
    "inherited __init__": (
        "class Base:\n    def __init__(self, bounds, rate=4e5): self.rate = rate\n"
        "class Control(Base):\n" + FEEDBACK
    ),
    "__init__ of a mixin": (
        "class Rate:\n    def __init__(self, bounds, *, rate=4e5): self.rate = rate\n"
        "class Feedback:\n" + FEEDBACK + "class Control(Feedback, Rate): pass\n"
    ),
    "options by keyword only": (
        "class Control:\n    def __init__(self, bounds, *, rate=4e5): self.rate = rate\n" + FEEDBACK
    ),
    "bounds by keyword only": (
        "class Control:\n    def __init__(self, *, rate=4e5, bounds): self.rate, self.b = rate, bounds.min\n"
        + FEEDBACK
    ),
    "no bounds": "class Control:\n    def __init__(self, rate=4e5): self.rate = rate\n" + FEEDBACK,
    "any options": (
        "class Control:\n    def __init__(self, **options): self.rate = options.get('rate', 4e5)\n" + FEEDBACK
    ),
    "any arguments": (
        "class Control:\n    def __init__(self, *all, **more):\n"
        "        self.rate = more.get('rate', 4e5) + 0 * all[0].min\n" + FEEDBACK
    ),
    "another name of the bounds": (
        "class Control:\n    def __init__(self, b, /, rate=4e5): self.rate = rate + b.min * 0\n" + FEEDBACK
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Control:\n"
        "    bounds: object\n    rate: float = 4e5\n" + FEEDBACK
    ),
    "dataclass without bounds": (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass(slots=True)\n"
        "class Control:\n    rate: float = 4e5\n" + FEEDBACK
    ),
    "__slots__": (
        "class Control:\n    __slots__ = ('rate', 'interval')\n"
        "    def __init__(self, bounds, rate=4e5): self.rate, self.interval = rate, 0.1\n" + FEEDBACK
    ),
    "__new__": (
        "class Control:\n    def __new__(cls, bounds, rate=4e5):\n        made = super().__new__(cls)\n"
        "        made.rate = rate\n        return made\n" + FEEDBACK
    ),
    "function": (
        "class Made:\n    def __init__(self, rate): self.rate = rate\n"
        + FEEDBACK
        + "def Control(bounds, rate=4e5): return Made(rate)\n"
    ),
    "partial": (
        "from functools import partial\nclass Made:\n"
        "    def __init__(self, bounds, scale, rate=4e5): self.rate = rate * scale\n"
        + FEEDBACK
        + "Control = partial(Made, scale=1)\n"
    ),
    "static and class methods": (
        "class Control:\n    rate = 4e5\n    @classmethod\n"
        + FEEDBACK.replace("self", "cls")
        + "    @staticmethod\n    def observe(): return {'a': 1}\n"
    ),
    "decorated method": (
        "import functools\ndef plain(method):\n    @functools.wraps(method)\n"
        "    def call(*arguments): return method(*arguments)\n    return call\n"
        "class Control:\n    rate = 4e5\n    @plain\n" + FEEDBACK
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_may_have_any_shape_with_and_without_options(shape: str, write: Write) -> None:
    name = write(SHAPES[shape])
    assert values(rtclab.simulate(call(name, duration="3 s")), "target_bps")[-1] == 4e5
    if shape != "static and class methods":
        changed = rtclab.simulate(call(f"{name},rate=600e3", duration="3 s"))
        assert values(changed, "target_bps")[-1] == 6e5
    if shape != "any options" and shape != "any arguments":
        with pytest.raises(RtclabError, match=r"(?s)congestion_control.options: .*gain.*hint: .*rate"):
            rtclab.simulate(call(f"{name},gain=2", duration="3 s"))


RANDOM = """
    import random
    import numpy as np
    from random import random as kept
    FIRST = kept()
    class Control:
        def __init__(self, bounds, more=0):
            self.more, self.drawn = more, [FIRST, random.gauss(0, 1), np.random.normal()]
        def on_feedback(self, now, feedback):
            for _ in range(self.more):
                random.random(), np.random.random(), np.random.standard_normal(3), random.gauss(0, 1)
            self.drawn += [random.random(), np.random.normal(), random.gauss(0, 1), kept()]
            return 4e5
        def observe(self):
            return {f"drawn_{index}": number for index, number in enumerate(self.drawn[:40])}
"""


def test_each_control_has_random_numbers_of_its_own(write: Write) -> None:
    """Whatever control alice has, and however much it draws, bob's control draws the same numbers."""
    own, other = write(RANDOM), write(RANDOM.replace("4e5", "5e5"), file="other.py")

    def drawn(alice: str, bob: str = own, repeat: int = 0) -> dict[str, float]:
        people = {"participants.alice.control": alice, "participants.bob.control": bob}
        trace = rtclab.simulate(call("goog-cc", duration="4 s", set=people), repeat)
        rows = trace.table("controller").filter(pl.col("name").str.starts_with("drawn"), flow="bob->alice")
        return dict(rows.select("name", "value").iter_rows())

    bobs = [drawn(alice) for alice in ("goog-cc", own, f"{own},more=3", other)]
    assert len(bobs[0]) == 40
    assert bobs[1:] == bobs[:1] * 3
    assert drawn(own, f"{own},more=1") != bobs[0]
    assert drawn("goog-cc", own, 1) != bobs[0]
    people = {"participants.alice.control": own, "participants.bob.control": own}
    rows = rtclab.simulate(call("goog-cc", duration="4 s", set=people)).table("controller")
    first = rows.filter(name="drawn_1").group_by("flow").agg(pl.col("value").first())["value"].to_list()
    assert len(set(first)) == 2  # alice's and bob's


def test_the_callers_own_random_numbers_stay_what_they_are(write: Write) -> None:
    """A simulation that is stepped runs controls in this process, and draws what another process draws."""
    import random

    import numpy as np

    scenario = call(write(RANDOM), duration="4 s")
    stepped = rtclab.Simulation(scenario)
    random.seed(5)
    np.random.seed(5)
    stepped.advance()
    after = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    assert after == (random.random(), np.random.random())
    assert after == (random.Random(5).random(), np.random.RandomState(5).random_sample())
    controller = stepped.trace().table("controller")
    assert controller.equals(rtclab.simulate(scenario).table("controller"))


UNITS = {
    "in Mbit/s": ("1.5", "at most 1 bit/s, and the encoders send at least 30 kbit/s"),
    "in kbit/s": ("1500", "at most 1.5 kbit/s, and the encoders send at least 30 kbit/s"),
    "one step too much": ("5e9", "at least 5 Gbit/s, and the encoders send at most 1.7 Mbit/s"),
    "low and right": ("31e3", ""),
    "high and right": ("1e9", ""),
    "at times low": ("1500 if now > 3 else 5e5", ""),
    "at times high": ("5e9 if now > 3 else 5e5", ""),
}


@pytest.mark.parametrize("what", UNITS)
def test_a_target_in_a_wrong_unit_is_noted_with_the_unit(what: str, write: Write, tmp_path: Path) -> None:
    rate, expected = UNITS[what]
    name = write(f"class Control:\n    def on_feedback(self, now, feedback): return {rate}")
    keep = {"duration": "5 s", "repeats": 2, "out": tmp_path, "progress": False}
    run = rtclab.run("first-call", set={"control": name}, **keep)  # type: ignore[arg-type]
    swept = rtclab.sweep("first-call", {"control": [name]}, **keep)  # type: ignore[arg-type]
    for one in (run, swept):
        notes = set(one.outcomes()["note"])
        told = f"the target of mine.py:Control was {expected} (rates are in bit/s)"
        assert notes == ({f"on alice->bob, bob->alice, {told}"} if expected else {""})
    assert ("rates are in bit/s" in run.report().read_text()) == bool(expected)


def test_prints_go_to_standard_error_up_to_a_limit(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    name = write(
        textwrap.dedent(AFTER_20) + "    def act(self):\n        print('x' * 10**6)\n        return 1e5"
    )
    rtclab.simulate(call(name))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert len(printed.err) < 5_000
    assert "more characters" in printed.err


def test_results_of_other_controls_stay(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTCLAB_ANSWER_S", "1")
    bad = textwrap.dedent(AFTER_20)
    killed = write(bad + "    def act(self): os.kill(os.getpid(), 9)", file="killed.py")
    endless = write(bad + "    def act(self):\n        while True: pass", file="endless.py")
    names = ["goog-cc", killed, write(CONSTANT), endless]
    swept = rtclab.sweep(
        "first-call", {"control": names}, duration="5 s", repeats=2, out=tmp_path, progress=False
    )
    statuses = swept.outcomes().group_by("condition", maintain_order=True).agg(pl.col("status").unique())
    assert [status for (status,) in statuses["status"].to_list()] == [
        "finished",
        "error",
        "finished",
        "error",
    ]
    reasons = swept.outcomes().filter(pl.col("status") == "error")["reason"].to_list()
    assert "killed.py:Control` failed: its process ended with signal 9" in reasons[0]
    assert "NeverAnswers" in reasons[-1]


def test_random_numbers_and_globals_begin_anew_in_each_run(write: Write, tmp_path: Path) -> None:
    name = write("""
        import random
        import numpy as np
        seen = []
        class Control:
            def __init__(self, bounds):
                self.max = bounds.max
            def on_feedback(self, now, feedback):
                seen.append(now)
                return self.max * (0.5 * random.random() + 0.5 * np.random.random()) + len(seen)
    """)
    rates = [
        rtclab.sweep(
            "first-call",
            {"link.up.delay": ["10 ms", "20 ms"]},
            set={"control": name},
            duration="5 s",
            repeats=3,
            out=tmp_path,
            jobs=jobs,
            progress=False,
        )
        .metrics()
        .sort(pl.all())
        for jobs in (1, 2)
    ]
    assert rates[0].equals(rates[1])
    assert rates[0].height > 100


def test_a_changed_file_is_other_code(write: Write, tmp_path: Path) -> None:
    name = write("import helper\n" + textwrap.dedent(CONSTANT))
    (tmp_path / "helper.py").write_text("x = 1\n")
    scenario = call(name)
    (tmp_path / "helper.py").write_text("x = 2\n")
    with pytest.raises(BadInput, match=r"mine\.py has changed: its digest is \w+; expected"):
        rtclab.simulate(scenario)
    assert call(name).congestion_control.digest != scenario.congestion_control.digest
    rtclab.simulate(Scenario.load(scenario, {"congestion_control.name": name}))


def test_a_changed_module_beside_it_counts_at_once(write: Write, tmp_path: Path) -> None:
    """Also in a process that imported it before, and beside a control that has a module of this name."""
    name = write(
        "import helper\n" + textwrap.dedent(CONSTANT).replace("bounds.max + bounds.audio", "helper.rate")
    )
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text((tmp_path / "mine.py").read_text())
    (other / "helper.py").write_text("rate = 123_000\n")
    for rate in (400_000, 500_000):
        (tmp_path / "helper.py").write_text(f"rate = {rate}\n")
        changes = {"participants.bob.control": f"{other / 'mine.py'}:Control"}
        trace = rtclab.simulate(call(name, set=changes))
        assert set(values(trace, "target_bps")) == {float(rate)}
        assert set(values(trace, "target_bps", "bob->alice")) == {123_000.0}


def test_a_scenario_names_it_relative_to_its_own_file(write: Write, tmp_path: Path) -> None:
    name = write(CONSTANT)
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "call.toml"
    text = 'name = "call"\ncontrol = "../mine.py:Control"\nduration = "5 s"\n[audio]\n'
    text += "[participants.alice]\n[participants.bob]\n"
    file.write_text(text + 'control = "nada,priority=2"\n')
    loaded = Scenario.load(file)
    assert loaded.congestion_control_of("alice").own.file == str(tmp_path / "deep" / ".." / "mine.py")  # type: ignore[union-attr]
    assert loaded.congestion_control_of("bob").options == {"priority": 2.0}
    changed = Scenario.load(file, {"participants.bob.control": name, "control": "fixed"})
    assert [control.file for control in changed.own_controls()] == [str(tmp_path / "mine.py")]
    for wrong, message in [
        ('control = "none.py:Control"', "congestion_control.name: cannot read"),
        ('control = "../mine.py"', "names no class; expected FILE.py:CLASS"),
        ("control = 3", "expected the name of a congestion control; got `3`"),
        ('control = "nada"\n[congestion_control]\nname = "nada"', "cannot be combined"),
        ('control = "nada,priority"', "cannot read `priority`"),
        ('control = "nada,priority=high"', "congestion_control.options.priority: expected a number"),
    ]:
        file.write_text(
            f'name = "call"\nduration = "5 s"\n{wrong}\n[audio]\n[participants.alice]\n[participants.bob]\n'
        )
        with pytest.raises(ScenarioError) as caught:
            Scenario.load(file)
        assert message in str(caught.value)


def test_the_command_line_takes_it_and_fails_with_its_traceback(write: Write, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rtclab", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    good, bad = (
        write(CONSTANT),
        write(textwrap.dedent(AFTER_20) + "    def act(self): return 1 / 0", file="bad.py"),
    )
    short = ["--duration", "5s", "--repeats", "1", "--no-report"]
    done = run("run", "first-call", "--control", "mine.py:Control", *short)
    assert done.returncode == 0, done.stderr
    done = run("run", "first-call", "--control", "bad.py:Control", *short)
    assert done.returncode == 1
    assert f'File "{bad.partition(":")[0]}", line 9, in act' in done.stderr
    done = run("run", "first-call", "--control", "mine.py:Control,gain=2", *short)
    assert done.returncode != 0
    assert "unexpected keyword argument 'gain'" in done.stderr
    (tmp_path / "strange").mkdir()
    (tmp_path / "home").mkdir()
    stranger = tmp_path / "strange" / "call.toml"
    stranger.write_text(
        f'name = "call"\ncontrol = "{good}"\nduration = "5 s"\n[audio]\n[participants.a]\n[participants.b]\n'
    )
    command = [sys.executable, "-m", "rtclab", "run", str(stranger), *short]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "home")
    assert refused.returncode == 2
    assert f"congestion_control.name: {good}" in refused.stderr
    trusted = subprocess.run(
        [*command, "--trust"], capture_output=True, text=True, check=False, cwd=tmp_path / "home"
    )
    assert trusted.returncode == 0, trusted.stderr


def test_it_can_be_replayed_on_a_browsers_log(write: Write) -> None:
    log = Path(__file__).parent / "event_logs" / "event-log-alice-bob.log"
    own, ours = rtclab.replay(log, write(CONSTANT)), rtclab.replay(log, "fixed")
    assert str(own.choice) == "mine.py:Control"
    last = [one.target["target_bps"].to_list()[-1] for one in (own, ours)]  # type: ignore[union-attr]
    assert last[0] == last[1] > 1e6
    failing = write(textwrap.dedent(AFTER_20) + "    def act(self): return 1 / 0", file="bad.py")
    with pytest.raises(RtclabError, match=r'bad\.py", line 9, in act'):
        rtclab.replay(log, failing)


def test_a_stepped_run_has_the_same_trace_as_one_in_one_go(write: Write) -> None:
    scenario = call(write(CONSTANT))
    stepped = rtclab.Simulation(scenario)
    for until in (2, 5, 7.5):
        stepped.advance(until)
    stepped.advance()
    assert stepped.trace().table("packets").equals(rtclab.simulate(scenario).table("packets"))


def test_a_failure_has_the_name_of_the_control_as_it_was_given(write: Write) -> None:
    """In this process and in another one: `mine.py:Control,x=1` of bob, with the place in the file."""
    name = write(textwrap.dedent(AFTER_20) + "    x = 0\n    def act(self): return 1 / 0")
    name = write((Path(name.partition(":")[0]).read_text()).replace("(self, bounds)", "(self, bounds, x=0)"))
    scenario = call(f"{name},x=1")
    expected = rf"congestion control `{re.escape(name)},x=1` of (alice|bob) on "
    with pytest.raises(ValueError, match=expected):
        rtclab.Simulation(scenario).advance()
    with pytest.raises(RtclabError, match=expected):
        rtclab.simulate(scenario)


AGENT = """
    import json, pathlib
    class Estimator:
        def __init__(self):
            self.seen, self.asked = [], 0
        def report_states(self, stats):
            self.seen.append(stats)
        def get_estimated_bandwidth(self):
            self.asked += 1
            pathlib.Path("seen.json").write_text(json.dumps(self.seen))
            return 400_000 + self.asked
"""


@pytest.mark.parametrize(("interval", "asked"), [(0.2, 45), (0.06, 150)])
def test_an_estimator_of_alphartc_runs_unchanged(
    interval: float, asked: int, write: Write, tmp_path: Path
) -> None:
    """It sees every packet that arrived, in the units of AlphaRTC, and its sender follows what it says."""
    import json

    write(AGENT, file="agent.py")
    changes = {"participants.bob.control": "fixed", "audio.bitrate": "32 kbit/s"}
    trace = rtclab.simulate(call(f"alphartc:agent.py,interval={interval}", set=changes))
    assert 400_000 + 0.9 * asked < values(trace, "target_bps")[-1] < 400_000 + 1.1 * asked
    seen = json.loads((tmp_path / "seen.json").read_text())
    packets = trace.table("packets").filter(
        pl.col("flow") == "alice->bob", pl.col("protocol") == "rtp", pl.col("delivered_ns").is_not_null()
    )
    arrived = packets.sort("delivered_ns", maintain_order=True).head(len(seen))
    assert len(seen) > 300
    assert [one["sequence_number"] for one in seen] == arrived["seq"].to_list()
    assert [one["ssrc"] for one in seen] == arrived["ssrc"].to_list()
    assert [one["arrival_time_ms"] for one in seen] == (arrived["delivered_ns"] // 1_000_000).to_list()
    sizes = [one["header_length"] + one["payload_size"] + one["padding_length"] + 28 for one in seen]
    assert sizes == arrived["size_bytes"].to_list()
    assert {one["payload_type"] for one in seen} == {111, 125}
    late = [one["arrival_time_ms"] - one["send_time_ms"] for one in seen]
    real = ((arrived["delivered_ns"] - arrived["sent_ns"]) / 1e6).to_list()
    assert max(abs(a - b) for a, b in zip(late, real, strict=True)) <= 2


def test_what_an_estimator_of_alphartc_gets_wrong_is_named(write: Write) -> None:
    write("class Other: pass", file="agent.py")
    with pytest.raises(RtclabError, match="has no class `Estimator`"):
        rtclab.simulate(call("alphartc:agent.py"))
    write(textwrap.dedent(AGENT).replace("400_000 + self.asked", "float('nan')"), file="agent.py")
    with pytest.raises(RtclabError, match=r"(?s)the estimate is nan; expected a number.*agent\.py\", line 8"):
        rtclab.simulate(call("alphartc:agent.py"))


def model(file: Path, *, features: int = 150, width: int = 3, **names: str) -> None:
    """A model of the challenge's form: its estimate is 1000 times its state, which counts its steps.

    To that it adds the rate of the newest short window, 10^-3 of which remain in the estimate.
    """
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    name = {key: names.get(key, key) for key in ("obs", "output")}
    weights = np.zeros((features, 2), np.float32)
    weights[0, 0] = 1e-3
    constants = {
        "weights": weights,
        "one": np.ones((1, width), np.float32),
        "count": np.array([[1000.0, 0.0]] + [[0.0, 0.0]] * (width - 1), np.float32),
    }
    nodes = [
        helper.make_node("MatMul", [name["obs"], "weights"], ["rate"]),
        helper.make_node("Add", ["hidden_states", "one"], ["state_out"]),
        helper.make_node("MatMul", ["state_out", "count"], ["steps"]),
        helper.make_node("Add", ["rate", "steps"], [name["output"]]),
        helper.make_node("Add", ["cell_states", "one"], ["cell_out"]),
    ]

    def value(of: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(of, onnx.TensorProto.FLOAT, shape)

    states = [value("hidden_states", 1, width), value("cell_states", 1, width)]
    outputs = [value("state_out", 1, width), value("cell_out", 1, width)]
    graph = helper.make_graph(
        nodes,
        "policy",
        [value(name["obs"], 1, 1, features), *states],
        [value(name["output"], 1, 1, 2), *outputs],
        [numpy_helper.from_array(constant, key) for key, constant in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), file)


def test_a_model_of_the_challenge_runs_unchanged_and_carries_its_states(write: Write, tmp_path: Path) -> None:
    model(tmp_path / "policy.onnx")
    trace = rtclab.simulate(call("onnx:policy.onnx", set={"participants.bob.control": "fixed"}))
    targets = values(trace, "target_bps")
    # A step every 60 ms from the first packet on, near 0.8 s; the rate adds at most 1000.
    assert 1000 * 140 < targets[-1] < 1000 * 156
    rises = [after - before for before, after in pairwise(targets) if after > 301e3]
    assert all(-1000 < rise < 4001 for rise in rises)
    whole = [target % 1000 for target in targets[-20:]]
    assert max(whole) > 10  # the received rate is in it
    (tmp_path / "scale.txt").write_text("\n".join(["0"] * 150))
    scaled = rtclab.simulate(
        call("onnx:policy.onnx,scale=scale.txt", set={"participants.bob.control": "fixed"})
    )
    assert all(target % 1000 == 0 for target in values(scaled, "target_bps")[-20:])


def test_a_model_of_another_form_is_named(write: Write, tmp_path: Path) -> None:
    for file, made, message in [
        ("wide.onnx", {"features": 120}, r"`obs` has the shape \[1, 1, 120\]; expected 1 x 1 x 150"),
        ("other.onnx", {"output": "action"}, "no `output`; expected the inputs `obs`"),
    ]:
        model(tmp_path / file, **made)  # type: ignore[arg-type]
        with pytest.raises(RtclabError, match=f"{file}: {message}"):
            rtclab.simulate(call(f"onnx:{file}"))
    (tmp_path / "not.onnx").write_bytes(b"nonsense")
    with pytest.raises(RtclabError, match=r"not\.onnx: cannot be read as a model"):
        rtclab.simulate(call("onnx:not.onnx"))
    with pytest.raises(ScenarioError, match=r"cannot read `.*none\.onnx`"):
        call("onnx:none.onnx")
    model(tmp_path / "policy.onnx")
    for option, message in [("order=first", "expected newest or oldest"), ("scale=none.txt", "cannot read")]:
        with pytest.raises(RtclabError, match=message):
            rtclab.simulate(call(f"onnx:policy.onnx,{option}"))


def test_the_page_has_the_limits_of_the_process() -> None:
    from rtclab.own_controls import worker

    page = (Path(__file__).parents[2] / "docs" / "your-control.md").read_text()
    assert f"not answered for {worker.ANSWER_S} s" in page
    assert f"{worker.MEMORY_BYTES / 2**30:g} GiB of memory" in page
    assert f"up to {worker.PRINTED} characters" in page
