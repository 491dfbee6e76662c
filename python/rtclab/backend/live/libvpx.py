"""libvpx's VP8 encoder as libwebrtc configures it for a camera, from the library that PyAV brings along.

PyAV itself cannot set all of the settings (buffers, reference frames) nor say which quantiser a frame got.
Settings: libwebrtc, ``libvpx_vp8_encoder.cc``; layout of the structures: ``vpx/vpx_encoder.h``.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rtclab.errors import BackendUnavailable

_KEEP_LAST_ONLY = (1 << 17) | (1 << 21) | (1 << 22) | (1 << 23)
"""One temporal layer: neither golden nor alternate frame is read or written."""
_KEY = 1
_REALTIME = 1
_TICKS_PER_SECOND = 90_000
_CIF = 352 * 288
_CPU_USED, _NOISE, _STATIC, _PARTITIONS, _LAST_QUANTIZER, _MAX_INTRA = 13, 15, 17, 18, 19, 26
"""Numbers of the controls in ``vpx/vp8cx.h``."""


class Encoded(NamedTuple):
    """One frame: its size, the quantiser index (0 to 127) and whether it is a key frame."""

    size: int
    qindex: int
    key: bool


class _Config(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_uint) for name in ("usage", "threads", "profile", "width", "height")],
        *[(name, ctypes.c_uint) for name in ("bit_depth", "input_bit_depth")],
        *[("timebase_num", ctypes.c_int), ("timebase_den", ctypes.c_int)],
        *[(name, ctypes.c_uint) for name in ("error_resilient", "passes", "lag", "drop_threshold")],
        *[(name, ctypes.c_uint) for name in ("resize", "scaled_width", "scaled_height", "up", "down", "mode")],
        *[("first_pass", ctypes.c_void_p), ("first_pass_size", ctypes.c_size_t)],
        *[("macroblocks", ctypes.c_void_p), ("macroblocks_size", ctypes.c_size_t)],
        *[(name, ctypes.c_uint) for name in ("kbps", "min_q", "max_q", "undershoot", "overshoot")],
        *[(name, ctypes.c_uint) for name in ("buffer", "buffer_initial", "buffer_optimal")],
        *[(name, ctypes.c_uint) for name in ("bias", "min_section", "max_section", "complexity")],
        *[(name, ctypes.c_uint) for name in ("key_mode", "key_min", "key_max")],
        ("rest", ctypes.c_byte * 2048),
    ]


class _Image(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("format", "space", "range")],
        *[(name, ctypes.c_uint) for name in ("w", "h", "bit_depth", "d_w", "d_h", "r_w", "r_h", "x", "y")],
        *[("planes", ctypes.c_void_p * 4), ("stride", ctypes.c_int * 4)],
        ("rest", ctypes.c_byte * 256),
    ]


class _Packet(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("pts", ctypes.c_int64),
        ("duration", ctypes.c_ulong),
        ("flags", ctypes.c_uint32),
    ]


def _library() -> ctypes.CDLL:
    package = importlib.util.find_spec("av")
    folders = [] if package is None or package.origin is None else [Path(package.origin).parent.parent / "av.libs"]
    for path in [path for folder in folders for path in sorted(folder.glob("libvpx*"))]:
        library = ctypes.CDLL(str(path))
        for name in ("vpx_codec_vp8_cx", "vpx_codec_get_cx_data", "vpx_img_wrap"):
            getattr(library, name).restype = ctypes.c_void_p
        return library
    raise BackendUnavailable("no libvpx was found", hint="pip install 'rtclab[live]' brings it with PyAV")


class Vp8Encoder:
    """An encoder of one size; close it after use, or use it in a ``with`` statement."""

    def __init__(
        self,
        width: int,
        height: int,
        kbps: int,
        quantizers: tuple[int, int] = (2, 56),
        frame_rate: float = 30,
        *,
        denoise: bool = True,
        drops: bool = True,
    ) -> None:
        """``quantizers``: smallest and largest on libvpx's scale from 0 to 63."""
        self._vpx = _library()
        self._context = ctypes.create_string_buffer(256)
        self._pts = 0
        self._duration = round(_TICKS_PER_SECOND / frame_rate)
        interface = ctypes.c_void_p(self._vpx.vpx_codec_vp8_cx())
        self._config = config = _Config()
        self._check(self._vpx.vpx_codec_enc_config_default(interface, ctypes.byref(config), 0))
        config.width, config.height, config.threads = width, height, 1
        config.timebase_num, config.timebase_den = 1, _TICKS_PER_SECOND
        config.error_resilient, config.passes, config.lag = 0, 0, 0
        config.drop_threshold, config.resize, config.mode = 30 if drops else 0, 0, 1
        config.kbps, (config.min_q, config.max_q) = kbps, quantizers
        config.undershoot, config.overshoot = 100, 15
        config.buffer, config.buffer_initial, config.buffer_optimal = 1000, 500, 600
        config.key_mode, config.key_min, config.key_max = 1, 0, 3000
        # The version of the interface is a number that only the header knows.
        for version in range(1, 64):
            result = self._vpx.vpx_codec_enc_init_ver(
                self._context, interface, ctypes.byref(config), ctypes.c_long(0), version
            )
            if result == 0:
                break
        self._check(result)
        self._control(_STATIC, 1)
        self._control(_CPU_USED, -6 if width * height >= _CIF else -4)
        self._control(_PARTITIONS, 0)
        self._control(_NOISE, 4 if denoise else 0)
        self._control(_MAX_INTRA, round(600 * 0.5 * frame_rate / 10))
        self._image = _Image()
        self._vpx.vpx_img_wrap(
            ctypes.byref(self._image), 0x102, width, height, 1, ctypes.c_char_p(bytes(width * height * 3 // 2))
        )

    def __enter__(self) -> Vp8Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._vpx.vpx_codec_destroy(self._context)

    def set_rate(self, kbps: int) -> None:
        """Sets the target rate from the next frame on."""
        self._config.kbps = kbps
        self._check(self._vpx.vpx_codec_enc_config_set(self._context, ctypes.byref(self._config)))

    def encode(self, picture: bytes, *, key: bool = False) -> Encoded | None:
        """Encodes a picture in I420; ``None`` if the rate control drops it."""
        luma = self._config.width * self._config.height
        start = ctypes.cast(ctypes.c_char_p(picture), ctypes.c_void_p).value or 0
        self._image.planes[0] = start
        self._image.planes[1] = start + luma
        self._image.planes[2] = start + luma * 5 // 4
        flags = _KEY if key else _KEEP_LAST_ONLY
        self._check(
            self._vpx.vpx_codec_encode(
                self._context,
                ctypes.byref(self._image),
                ctypes.c_int64(self._pts),
                ctypes.c_ulong(self._duration),
                ctypes.c_long(flags),
                ctypes.c_ulong(_REALTIME),
            )
        )
        self._pts += self._duration
        position = ctypes.c_void_p(None)
        encoded = None
        while (at := self._vpx.vpx_codec_get_cx_data(self._context, ctypes.byref(position))) is not None:
            packet = _Packet.from_address(at)
            if packet.kind == 0 and packet.size > 0:
                qindex = ctypes.c_int(0)
                self._check(
                    self._vpx.vpx_codec_control_(self._context, _LAST_QUANTIZER, ctypes.byref(qindex))
                )
                encoded = Encoded(packet.size, qindex.value, bool(packet.flags & _KEY))
        return encoded

    def _control(self, number: int, value: int) -> None:
        self._check(self._vpx.vpx_codec_control_(self._context, number, ctypes.c_int(value)))

    def _check(self, result: int) -> None:
        if result != 0:
            raise RuntimeError(f"libvpx: error {result}")
