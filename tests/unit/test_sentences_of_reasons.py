"""Each sentence of `rtclab why` is well formed, has the figures of its account, and is said of some one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from math import nan
from random import Random

import pytest

from rtclab.metrics.accounts.limits import NAMES
from rtclab.metrics.accounts.losses import CAUSES as LOSS_CAUSES
from rtclab.metrics.accounts.queues import UsedPath
from rtclab.metrics.accounts.stalls import CAUSES as STALL_CAUSES
from rtclab.metrics.accounts.stalls import Stall
from rtclab.metrics.accounts.waits import STAGES
from rtclab.report import why
from rtclab.report.why import ABOUT, AUDIBLE_PERCENT, LATE_MS, OWN, FlowAccount, stall_in_words

PATHS = ("", "alice.up", "alice.both")
NUMBER_OF_ACCOUNTS = 3000
SECOND_NS = 1_000_000_000


def random_stall(chance: Random, begin_ns: int, media: str = "video") -> Stall:
    """A freeze or gap of sound with a cause, and a place that this cause can have."""
    cause = chance.choice(list(STALL_CAUSES))
    where = ""
    if cause == "loss":
        where = f"{chance.choice(list(LOSS_CAUSES))} {chance.choice(PATHS)}".strip()
    elif cause == "outage":
        where = chance.choice(PATHS[1:])
    elif cause in ("queue", "delay"):
        where = chance.choice(PATHS)
    elif cause == "sender" and media == "video":
        where = chance.choice(["", *NAMES])
    detail = chance.choice(["", "3 packets lost; 1 retransmission lost too"])
    repair = chance.choice(["", *why.REPAIRS_IN_WORDS]) if cause in ("loss", "outage") else ""
    took_ms = chance.uniform(1, 5000) if repair in ("slow", "key_frame") or chance.random() < 0.5 else nan
    end_ns = begin_ns + chance.randint(150, 4000) * SECOND_NS // 1000
    return Stall(begin_ns, end_ns, cause, where, detail, media, repair, took_ms)


def random_account(seed: int) -> FlowAccount:
    """An account of anything that may have happened: often unknown values, no freezes, no pictures."""
    chance = Random(seed)
    held = [name for name in NAMES if chance.random() < 0.3] or [chance.choice(NAMES)]
    weights = {name: chance.random() for name in held}
    causes = {(chance.choice(list(LOSS_CAUSES)), chance.choice(PATHS)) for _ in range(chance.randint(0, 5))}
    losses = sorted(((*one, chance.randint(1, 900)) for one in sorted(causes)), key=lambda one: -one[2])
    used = {
        "path": chance.choice(PATHS[1:]),
        "used": chance.choice([nan, chance.random()]),
        "beside": chance.choice(["", "upload"]),
        "waited_ms": chance.choice([nan, chance.uniform(1, 40), chance.uniform(40, 3000)]),
        "grade": chance.choice(["known", "inferred"]),
    }
    used["share_beside"] = chance.random() if used["beside"] else 0.0
    stalls = [random_stall(chance, 5 * index * SECOND_NS) for index in range(chance.choice([0, 0, 1, 2, 9]))]
    at = UsedPath(**{one.name: used[one.name] for one in fields(UsedPath)}) if chance.random() < 0.7 else None
    known = {
        "flow": chance.choice(["alice->bob", "p03->p01", "phone->sfu.eu"]),
        "shares": {name: weights.get(name, 0.0) / sum(weights.values()) for name in NAMES},
        "grade": chance.choice(["known", "inferred", "unknown"]),
        "losses": losses,
        "seen_losses": losses[:1] if chance.random() < 0.3 else losses,
        "lost_percent": chance.choice([nan, 0.0, chance.uniform(0, 60)]),
        "stalls": stalls,
        "gaps": [
            random_stall(chance, index * SECOND_NS, "audio") for index in range(chance.choice([0, 1, 4]))
        ],
        "concealed_percent": chance.choice([nan, 0.0, chance.uniform(0, 20)]),
        "waits_ms": chance.choice([{}, {stage: chance.uniform(0, 200) for stage in STAGES}]),
        "sound_waits_ms": {},
        "bottleneck": at,
        "queue": at,
        "held_at": chance.choice(PATHS),
        "lines": chance.choice([{}, {480: 1.0}, {240: 0.3, 360: 0.2, 480: 0.5}]),
        "active_s": chance.choice([60.0, 300.0]),
        "forwarded": chance.random() < 0.3,
        "lost_behind_percent": chance.choice([nan, 0.0, chance.uniform(0, 60)]),
        "paths": {"alice.both": "the Wi-Fi hop alice.both, which fades"},
    }
    return FlowAccount(**known)


ACCOUNTS = [random_account(seed) for seed in range(NUMBER_OF_ACCOUNTS)]


def test_every_sentence_is_well_formed() -> None:
    for account in ACCOUNTS:
        first, *others = account.sentences
        assert first.startswith(f"{account.flow.replace('->', ' → ')}: ")
        for sentence in (first, *others):
            assert sentence.endswith(".")
            assert not re.search(r"\bnan\b|\bNone\b|\(\)|  |\.\.|;;|\( | \)| ;| ,|: \.|[{}]", sentence), (
                sentence
            )
            assert sentence.count("(") == sentence.count(")"), sentence
        assert others == [one for one in others if one[0].isupper()]


def test_the_sentences_are_their_parts_and_each_part_has_a_plot() -> None:
    for account in ACCOUNTS:
        said = " ".join(account.sentences)
        for parts in account.parts:
            for about, text in parts:
                assert about in ABOUT
                assert text in said
        told = Counter(about for parts in account.parts for about, _ in parts)
        assert told == Counter(
            ["limit"]
            + ["freezes"] * bool(account.stalls)
            + ["waits"] * (sum(account.waits_ms.values()) >= LATE_MS)
            + ["sound"] * (account.concealed_percent > AUDIBLE_PERCENT and bool(account.gaps))
        )


def test_every_sentence_has_the_figures_of_its_account() -> None:
    for account in ACCOUNTS:
        text = " ".join(account.sentences)
        shares = [round(100 * share) for share in account.shares.values()]
        text, smaller = re.subn(r"; its pictures had fewer than 480 lines for 50 % of the time", "", text)
        assert smaller == (account.lines.get(480) == 0.5)
        told = [int(percent) for percent in re.findall(r"for (\d+) % of the time", text)]
        assert not Counter(told) - Counter(shares), text
        ranked = sorted(account.shares, key=lambda name: -account.shares[name])
        assert told or ranked[0] == "unknown"
        longest = round(100 * account.shares[ranked[0]])
        assert not told or (longest in told if ranked[0] in (*OWN, "unknown") else told[0] == longest)
        for count, total in re.findall(r"(\d+) of (\d+) freezes", text):
            assert 0 < int(count) <= int(total) == len(account.stalls)
        for total in re.findall(r"all (\d+) freezes", text):
            assert int(total) == len(account.stalls) > 1
        assert ("freeze" in text) == bool(account.stalls)
        for took_ms in re.findall(r"Pictures took (\d+) ms", text):
            assert int(took_ms) == round(sum(account.waits_ms.values()))


WORDS = {
    f"{name} {key}": words
    for name, of in vars(why).items()
    if name.endswith("WORDS") and isinstance(of, dict)
    for key, words in of.items()
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_every_phrase_is_said_of_some_account(words: str) -> None:
    # Of a limit by delay or by loss, the plain word is a part of what is said where more is known.
    pattern = re.sub(r"\\\{.*?\\\}", r"[\\d.]+", re.escape(words))
    assert any(re.search(pattern, sentence) for account in ACCOUNTS for sentence in account.sentences)


@pytest.mark.parametrize(
    "pattern",
    [
        r"limited by the queue of alice\.up \(",
        r"limited by the short queue of ",
        r"limited by the long queue of ",
        r"waited for packets in the long queue of alice\.up, which upload fills",
        r"Of the sound, [\d.]+ % was made up; \d+ % of it came from ",
        r"which were replaced after \d+ ms",
        r"until a key frame came [\d.]+ s later",
        r"\(which upload fills: \d+ % of its bytes",
        r"in which packets waited up to \d+ ms\)",
        r"limited by losses \([\d.]+ %, ",
        r": its sender was limited by ",
        r"; [\d.]+ % of what the server forwarded was lost ",
        r"in a full, short queue on alice\.up",
        r"on the Wi-Fi hop alice\.both, which fades",
        r", as its packets suggest",
        r"what limited its rate is not known",
        r"its freeze of [\d.]+ s ",
        r"all \d freezes \([\d.]+ s\) ",
        r"\d of \d freezes \([\d.]+ s of [\d.]+ s\) ",
        r"came from an outage of alice\.up",
        r"came from the sender, who sent no picture, limited by ",
        r"^[^;]*: (?:its freeze|all|\d+ of)[^;]*; (?:limited|what limited)",  # the freezes first
        r"^[^;]*: (?:limited|what limited).*; (?:its freeze|all|\d+ of)",  # the limit first
        r"data on its way that was not acknowledged, as packets waited in the queue of alice\.up",
        r" for \d+ % of the time; its pictures had fewer than 480 lines for 50 % of the time",
        r"waited for packets that took longer on their way over alice\.up",
        r"Pictures took \d+ ms from camera to screen, of which \d+ ms ",
    ],
)
def test_every_form_of_a_sentence_is_made_of_some_account(pattern: str) -> None:
    assert any(re.search(pattern, sentence) for account in ACCOUNTS for sentence in account.sentences)


def test_a_freeze_in_words_follows_its_subject() -> None:
    for account in ACCOUNTS:
        for stall in account.stalls:
            words = stall_in_words(stall)
            assert re.match(r"(?:waited for|came from|ha(?:s|ve)) ", words), words
            assert not re.search(r"\(\)|  |\( | \)$", words), words
