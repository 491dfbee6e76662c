"""Sentences that say what is not there: each is asked again whether it is still not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROLS
from rtclab.backend.sim import SimBackend
from rtclab.errors import RtclabError
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario, aqm, shipped
from rtclab.scenario.call import Call
from rtclab.scenario.participant import Video
from rtclab.scenario.traffic import Traffic

ROOT = Path(__file__).parents[2]
MEASURED = re.compile(r"reproduction-|then-and-now|marks|twin|arena|commands")
"""Pages whose sentences are made from numbers, or from the code."""
NOT_THERE = re.compile(
    r"not implemented|not modell?ed|not supported|(?:does|do) not support|left out|not yet|"
    r"(?:is|are) not simulated|(?:simulator|emulator|rtclab|laboratory|models?) (?:has|have) (?:no|neither)|"
    r"only simulated|simulated only|live (?:calls )?only|no path|no control|not there|"
    r"cannot be (?:run|simulated|measured|varied)|not handled|(?:it|they|nodes) (?:has|have) no |"
    r"have no (?:options|metrics)",
    re.IGNORECASE,
)


def choices(table: type, field: str) -> set[str]:
    """The texts that a field of a table may have."""
    return {str(value) for value in re.findall(r"'([\w-]+)'", str(table.model_fields[field].annotation))}  # type: ignore[attr-defined]


DISCIPLINES = [one for one in vars(aqm).values() if "aqm" in getattr(one, "model_fields", ())]
CATALOGUE = {
    *(set(CONGESTION_CONTROLS) - {"fixed"}),  # an ordinary word
    *METRICS,
    *(name for one in DISCIPLINES for name in choices(one, "aqm")),
    *choices(Traffic, "congestion_control"),
    *choices(Video, "codec"),
    *choices(Call, "kind"),
    *("AQM", "ECN", "L4S", "FQ-CoDel", "FEC", "RED", "RFC 8888", "H.264", "simulcast", "layers", "IPv6"),
    *("Internet", "Wi-Fi", "marks", "bursts"),
}
"""Names of things that rtclab has, or that somebody may add: of catalogues, and of parts of the model."""
NAMED = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, CATALOGUE))})(?![\w-])", re.IGNORECASE)

Still = Callable[[], bool] | str
"""Asks whether something is still not there; or why nothing of rtclab can make the sentence false."""


def refused(**fields: object) -> bool:
    """Whether the simulator refuses a scenario with these fields."""
    try:
        SimBackend().check(Scenario.load("first-call", fields))
    except RtclabError:
        return True
    return False


def no_options(*controls: str) -> bool:
    return not {name for name, *_ in CONGESTION_CONTROL_OPTIONS} & set(controls)


def no_control(name: str) -> bool:
    return not any(name in one for one in CONGESTION_CONTROLS)


def no_metric(*words: str) -> bool:
    return not any(word in name for word in words for name in METRICS)


def not_simulated(metric: str) -> bool:
    known = METRICS[metric].known
    return known is not None and known["simulated"].certainty == "not"


PRINTED = "papers/rtclab_papers/reproduce/published/abello2013.toml"
CODE, OTHERS = "a part of the original code that the model has not", "about programs of others"
SENTENCES: dict[tuple[str, str], Still] = {
    ("docs/congestion-control.md", "`remb` and `fixed` have no options"): partial(
        no_options, "remb", "fixed"
    ),
    ("docs/controls.md", "and classic ECN and competing flows are not handled"): CODE,
    ("docs/controls.md", "Not modelled are a change of the route, padding before any media"): CODE,
    (
        "docs/internet.md",
        "**IPv4 only.** Nodes have no IPv6 addresses",
    ): "no field of a scenario has addresses",
    ("docs/l4s.md", "No stock kernel has Prague, so it is only simulated"): OTHERS,
    ("docs/live-calls.md", "A *forwarding* MCU (`mcu`), which passes on all feedback unchanged"): OTHERS,
    ("docs/live-calls.md", "It has no H.264 encoder of its own, takes no field trials"): OTHERS,
    ("docs/live.md", "`h264-2016` are models of old encoders and are simulated only"): OTHERS,
    ("docs/model.md", "It has no simulcast and no layers"): lambda: refused(**{"video.simulcast": True}),
    ("docs/papers.md", "the encoder models make one stream"): lambda: refused(**{"video.simulcast": True}),
    ("docs/papers.md", "the simulator has no page"): lambda: refused(**{"video.adapt": "loss"}),
    ("docs/papers.md", "no picture quality, echo cancellation or G.711"): lambda: (
        no_metric("psnr", "ssim", "vmaf", "quality", "echo") and no_control("g711")
    ),
    ("docs/papers.md", "FBRA, DFLOW, RAP, TFRC alone, Vegas, FAST, Sprout, LEDBAT, DCCP"): lambda: all(
        map(no_control, ("fbra", "dflow", "rap", "tfrc", "vegas", "fast", "sprout", "ledbat", "dccp"))
    ),
    ("docs/papers.md", "memory, simulated: the models have none"): lambda: not_simulated("memory"),
    ("docs/test-cases.md", "Not there is 6.1, media with priorities"): lambda: "rfc8867/6.1" not in shipped(),
    ("docs/trace.md", "complete TCP, except that they have no FIN"): "a part of captures",
    (
        "docs/scenarios.md",
        "so it has no flow of acknowledgements and no TCP metrics",
    ): "UDP has none by its nature",
    ("python/rtclab/scenario/participant.py", "browser's own encoders, in live calls only"): lambda: all(
        refused(**{"video.codec": codec}) for codec in ("vp9", "h264", "av1")
    ),
    (
        "python/rtclab/scenario/participant.py",
        "sent to an SFU in several sizes at once, in live calls only",
    ): (lambda: refused(**{"video.simulcast": True})),
    ("python/rtclab/scenario/elsewhere.py", "rtclab has no RED"): lambda: all(
        "red" not in choices(one, "aqm") for one in DISCIPLINES
    ),
    ("python/rtclab/scenario/elsewhere.py", "rtclab has no layers in one stream"): lambda: (
        not ({"svc", "layers", "scalability_mode"} & Video.model_fields.keys())
    ),
    (PRINTED, "The memory of figure 51 is not simulated"): lambda: not_simulated("memory"),
    (PRINTED, "includes the page and the MCU's own set-up, which are not simulated"): CODE,
    (
        "papers/rtclab_papers/reproduce/configured.py",
        "bursts of loss are left out",
    ): "about a table of the page",
    ("papers/rtclab_papers/validate/l4s_page.py", "No stock kernel has Prague"): OTHERS,
}
"""Files and words of the sentences, and what asks whether they are still true."""


def texts() -> Iterator[tuple[str, str]]:
    """The name and the text of pages, of docstrings, helps and messages, and of what pages are made from."""
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if not MEASURED.match(file.name):
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    for place in (ROOT / "python" / "rtclab", ROOT / "papers" / "rtclab_papers"):
        for file in sorted(place.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield file.relative_to(ROOT).as_posix(), node.value
        for file in sorted([*place.rglob("*.j2"), *place.rglob("*.toml")]):
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, and the cells of its tables."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\| |- )", text):
        yield from re.split(r"(?<=[.;:])\s+|\s\|\s", " ".join(paragraph.split()))


def known(file: str, sentence: str) -> bool:
    return any(file == place and words in sentence for place, words in SENTENCES)


@pytest.mark.parametrize(("file", "words"), SENTENCES)
def test_what_a_sentence_says_is_not_there_is_still_not_there(file: str, words: str) -> None:
    text = " ".join((ROOT / file).read_text(encoding="utf-8").replace('"\n', "").split())
    assert words in re.sub(r'\s*"\s+"', "", text)
    still = SENTENCES[file, words]
    assert isinstance(still, str) or still()


def test_every_sentence_that_says_that_a_thing_of_a_catalogue_is_not_there_is_known() -> None:
    found = [
        f"{file}: {sentence}"
        for file, text in texts()
        for sentence in sentences(text)
        if NOT_THERE.search(sentence) and NAMED.search(sentence) and not known(file, sentence)
    ]
    assert found == []
