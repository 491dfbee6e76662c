"""libvpx's VP8 encoder as libwebrtc configures it for a camera, from the library that PyAV brings along.

PyAV itself cannot set all of the settings (buffers, reference frames) nor say which quantiser a frame got.
Settings: libwebrtc, ``libvpx_vp8_encoder.cc``; layout of the structures: ``vpx/vpx_encoder.h``.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from rtclab.errors import SEE_DOCTOR, BackendUnavailable

_KEEP_LAST_ONLY = (1 << 17) | (1 << 21) | (1 << 22) | (1 << 23)
"""Flags of one temporal layer: neither golden nor alternate frame is read or written."""
_KEY = 1
_I420 = 0x102
_REALTIME = 1
_TICKS_PER_SECOND = 90_000
_FRAME_RATE = 30
_CIF = 352 * 288
_CPU_USED, _NOISE, _STATIC, _PARTITIONS, _LAST_QUANTIZER, _MAX_INTRA = 13, 15, 17, 18, 19, 26
"""Numbers of the controls in ``vpx/vp8cx.h``."""


class EncodedFrame(NamedTuple):
    """One frame: its size, the quantiser index (0 to 127) and whether it is a key frame."""

    size: int
    qindex: int
    key: bool


def _layout(*groups: tuple[str, Any]) -> list[tuple[str, Any]]:
    """The fields of a structure: names that share a type, in order."""
    return [(name, kind) for names, kind in groups for name in names.split()]


class _Config(ctypes.Structure):
    """``vpx_codec_enc_cfg``, as far as it is set here."""

    _fields_ = _layout(
        ("usage threads profile width height bit_depth input_bit_depth", ctypes.c_uint),
        ("timebase_num timebase_den", ctypes.c_int),
        ("error_resilient passes lag drop_threshold", ctypes.c_uint),
        ("resize scaled_width scaled_height up down mode", ctypes.c_uint),
        ("first_pass first_pass_size macroblocks macroblocks_size", ctypes.c_size_t),
        ("kbps min_q max_q undershoot overshoot", ctypes.c_uint),
        ("buffer buffer_initial buffer_optimal", ctypes.c_uint),
        ("bias min_section max_section complexity", ctypes.c_uint),
        ("key_mode key_min key_max", ctypes.c_uint),
        ("rest", ctypes.c_byte * 2048),
    )


class _Image(ctypes.Structure):
    """``vpx_image``."""

    _fields_ = _layout(
        ("format space range", ctypes.c_int),
        ("w h bit_depth d_w d_h r_w r_h x y", ctypes.c_uint),
        ("planes", ctypes.c_void_p * 4),
        ("stride", ctypes.c_int * 4),
        ("rest", ctypes.c_byte * 256),
    )


class _Packet(ctypes.Structure):
    """``vpx_codec_cx_pkt`` with a frame in it."""

    _fields_ = _layout(
        ("kind", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("pts", ctypes.c_int64),
        ("duration", ctypes.c_ulong),
        ("flags", ctypes.c_uint32),
    )


def _library() -> ctypes.CDLL:
    package = importlib.util.find_spec("av")
    if package is not None and package.origin is not None:
        for path in (Path(package.origin).parent.parent / "av.libs").glob("libvpx*"):
            library = ctypes.CDLL(str(path))
            for name in ("vpx_codec_vp8_cx", "vpx_codec_get_cx_data", "vpx_img_wrap"):
                getattr(library, name).restype = ctypes.c_void_p
            return library
    raise BackendUnavailable("no libvpx was found", hint=SEE_DOCTOR)


class Vp8Encoder:
    """An encoder of one size; close it after use, or use it in a ``with`` statement."""

    def __init__(
        self,
        width: int,
        height: int,
        kbps: int,
        quantizers: tuple[int, int] = (2, 56),
        *,
        drops: bool = True,
    ) -> None:
        """``quantizers``: smallest and largest on libvpx's scale from 0 to 63; ``drops``: may drop frames."""
        self._vpx = _library()
        self._context = ctypes.create_string_buffer(256)
        self._pts = 0
        self._duration = _TICKS_PER_SECOND // _FRAME_RATE
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
        self._control(_NOISE, 4)
        self._control(_MAX_INTRA, round(600 * 0.5 * _FRAME_RATE / 10))
        self._image = _Image()
        black = ctypes.c_char_p(bytes(width * height * 3 // 2))
        self._vpx.vpx_img_wrap(ctypes.byref(self._image), _I420, width, height, 1, black)

    def __enter__(self) -> Vp8Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._vpx.vpx_codec_destroy(self._context)

    def encode(self, picture: bytes) -> EncodedFrame | None:
        """Encodes a picture in I420; ``None`` if the rate control drops it."""
        luma = self._config.width * self._config.height
        start = ctypes.cast(ctypes.c_char_p(picture), ctypes.c_void_p).value or 0
        self._image.planes[0] = start
        self._image.planes[1] = start + luma
        self._image.planes[2] = start + luma * 5 // 4
        self._check(
            self._vpx.vpx_codec_encode(
                self._context,
                ctypes.byref(self._image),
                ctypes.c_int64(self._pts),
                ctypes.c_ulong(self._duration),
                ctypes.c_long(_KEEP_LAST_ONLY),
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
                encoded = EncodedFrame(packet.size, qindex.value, bool(packet.flags & _KEY))
        return encoded

    def _control(self, number: int, value: int) -> None:
        self._check(self._vpx.vpx_codec_control_(self._context, number, ctypes.c_int(value)))

    def _check(self, result: int) -> None:
        if result != 0:
            raise RuntimeError(f"libvpx: error {result}")
