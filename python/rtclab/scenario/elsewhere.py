"""Words of other tools that users try in scenarios, and what rtclab has in their place."""

from __future__ import annotations

from collections.abc import Mapping

ELSEWHERE: Mapping[str, str] = {
    "bandwidth": "it is called `link.up.capacity` and `link.down.capacity`",
    "bitrate": "video has `video.min_bitrate` and `video.max_bitrate`, and audio `audio.bitrate`",
    "burst": 'bursts of loss are a table: `loss = { mean = "2 %", burst = 3 }`',
    "content_hint": "rtclab has no content hint; a shared screen is a video with a low `video.frame_rate`",
    "corrupt": "rtclab does not damage packets; lost ones are `link.up.loss`",
    "data": "rtclab has no data channels; other data beside a call are `traffic`",
    "dtx": "rtclab has no discontinuous transmission; audio has the constant rate `audio.bitrate`",
    "duplicate": "rtclab does not duplicate packets",
    "fec": "forward error correction is a part of `video.repair`",
    "fps": "it is called `video.frame_rate`",
    "last_n": "rtclab's servers forward everybody; there is no last N",
    "latency": "it is called `link.up.delay` and `link.down.delay`",
    "mtu": "rtclab has no MTU; packets of calls have up to 1200 B, and UDP traffic `packet_size`",
    "nack": "asking for packets again is a part of `video.repair`",
    "outage": 'an outage is a capacity of 0 for a while: `capacity = { steps = [["0 s", "1 Mbit/s"], '
    '["10 s", "0 bit/s"], ["12 s", "1 Mbit/s"]] }`',
    "packet_loss": "it is called `link.up.loss` and `link.down.loss`",
    "playout_delay": "rtclab sets no playout delay: receivers choose it, as browsers do",
    "policer": 'a policer is a capacity with a short queue: `queue = "5 packets"`, as in `access/policer`',
    "priority": "rtclab has no priorities of streams or packets",
    "red": "rtclab has no RED; disciplines are `codel`, `fq_codel`, `pie`, `dualpi2` and `step`",
    "reorder": 'packets overtake each other with `jitter = { sd = "5 ms", reorder = true }`',
    "resolution": "it is `video.width` and `video.height`",
    "rtt": "a round trip is the delay of both directions: `link.up.delay+link.down.delay`",
    "simulcast": "it is a field of video: `video.simulcast`",
    "svc": "rtclab has no layers in one stream; several sizes at once are `video.simulcast`",
}
"""By word, a hint. Words in backticks are fields, values or commands of rtclab."""
