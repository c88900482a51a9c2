"""How node and training child speak: frames of JSON with arrays beside it, over a pair of Unix sockets.

A frame is three big-endian lengths (of the JSON, 4 bytes; of what follows it, 8 bytes; how many descriptors come
along, 1 byte), then the JSON and what follows. Few bytes of arrays follow the JSON; more stand in a file of
memory, whose descriptor comes along; lending.py says when such a file is written again. Nothing in a frame can
run code in the one who reads it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.params import Params
from flnet.training.frames import Frame
from flnet.training.lending import FREE, Lending
from flnet.training.memory_file import UnreadableLayout, arrays_in, layout_of, raw

INLINE = 64 * 1024  # bytes; fewer are copied through the sockets faster than a file is made for them
LONGEST_HEAD = 16 * 1024 * 1024  # bytes of JSON
_LENGTHS = struct.Struct(">IQB")
_ARRAYS = "arrays"  # the field that describes them
Parts = Sequence[bytes | bytearray | memoryview]
_CLOSED_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Garbled(ValueError):
    """Bytes that are no frame."""


class Channel:
    """One end of a pair of sockets. Any thread may send, one may receive.

    Args:
        end: a connected Unix stream socket.
        remember: of how many sets of arrays that went either way the files are kept, to be sent again.
    """

    def __init__(self, end: socket.socket, remember: int = 0) -> None:
        self._end, self._files = end, Lending(remember)
        self._sending = threading.Lock()

    def send(self, frame: Frame) -> None:
        """Send all of it.

        Raises:
            OSError: nobody reads any more.
            TrainerError: there is no room for the arrays.
        """
        if frame.params is None:
            self._send(frame.fields)
        elif (size := layout_of(frame.params)[1]) <= INLINE:
            self._send(*_inline(frame.fields, frame.params, size))
        else:
            file, name = self._files.lend(frame.params)
            self._send({**frame.fields, _ARRAYS: file.layout, **name}, (), (file.descriptor,))

    def receive(self) -> Frame | None:
        """The next frame; None when the other side is gone, also in the middle of one.

        Raises:
            Garbled: what came is no frame.
        """
        message = receive_message(self._end, most_descriptors=1)
        if message is None:
            return None
        fields, beside, descriptors = message
        layout, free, params = fields.pop(_ARRAYS, None), fields.pop(FREE, []), None
        try:
            if descriptors:
                params = self._files.borrow(descriptors[0], layout, fields)
            elif layout is not None:
                params = arrays_in(beside, layout)
            self._files.freed(free)
        except UnreadableLayout as exc:
            raise Garbled(str(exc)) from exc
        return Frame(fields, params)

    def forked(self) -> None:
        """Note that this process was or will be forked, with all the arrays that came and still live."""
        self._files.forked()

    def forget(self) -> None:
        """Let go of the files that are kept."""
        self._files.clear()

    def close(self) -> None:
        """Close the socket and forget all files."""
        self.forget()
        self._end.close()

    def _send(self, fields: Mapping[str, Any], parts: Parts = (), descriptors: Sequence[int] = ()) -> None:
        free = self._files.free()
        with self._sending:
            send_message(self._end, {**fields, FREE: free} if free else fields, parts, descriptors)


def _inline(fields: Mapping[str, Any], params: Params, size: int) -> tuple[Mapping[str, Any], Parts]:
    layout, buffer = layout_of(params)[0], bytearray(size)
    for (_, _, _, offset), value in zip(layout, params.values(), strict=True):
        buffer[offset : offset + value.nbytes] = raw(value)
    return {**fields, _ARRAYS: layout}, (buffer,)


def send_message(
    end: socket.socket,
    fields: Mapping[str, Any],
    parts: Parts = (),
    descriptors: Sequence[int] = (),
) -> None:
    """Send JSON, bytes beside it, and open files.

    Raises:
        OSError: nobody reads any more.
    """
    head = json.dumps(fields).encode()
    lengths = _LENGTHS.pack(len(head), sum(len(part) for part in parts), len(descriptors))
    message = memoryview(b"".join([lengths, head, *parts]))
    sent = socket.send_fds(end, [message], descriptors) if descriptors else 0
    end.sendall(message[sent:])


def receive_message(
    end: socket.socket, most_descriptors: int
) -> tuple[dict[str, Any], memoryview, Sequence[int]] | None:
    """What `send_message` sent, the descriptors not inheritable; None when the other side is gone.

    Raises:
        Garbled: it is no message; its descriptors are closed.
        OSError: the socket's timeout passed, or it was closed on this side.
    """
    descriptors: list[int] = []
    try:
        message = _received(end, most_descriptors, descriptors)
    except ConnectionError:  # gone before it had read all
        message = None
    except BaseException:
        _close_all(descriptors)
        raise
    if message is None:
        _close_all(descriptors)
        return None
    return *message, descriptors


def _received(end: socket.socket, most: int, descriptors: list[int]) -> tuple[dict[str, Any], memoryview] | None:
    lengths, coming, _, _ = socket.recv_fds(end, _LENGTHS.size, most, _CLOSED_ON_EXEC)
    descriptors += coming
    for descriptor in coming:
        os.set_inheritable(descriptor, False)
    if not lengths:
        return None
    lengths += bytes(_exactly(end, _LENGTHS.size - len(lengths)) or b"")
    if len(lengths) < _LENGTHS.size:
        return None
    head_size, beside_size, count = _LENGTHS.unpack(lengths)
    if head_size > LONGEST_HEAD or beside_size > INLINE or count != len(descriptors):
        raise Garbled(f"a frame of {head_size} and {beside_size} bytes with {count} descriptors")
    head, beside = _exactly(end, head_size), _exactly(end, beside_size)
    if head is None or beside is None:
        return None
    return _fields(head), beside


def _fields(head: memoryview) -> dict[str, Any]:
    try:
        fields = json.loads(bytes(head))
    except (ValueError, RecursionError) as exc:
        raise Garbled(f"no JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise Garbled("no JSON object")
    return fields


def _exactly(end: socket.socket, size: int) -> memoryview | None:
    """So many bytes; None when the other side ends before."""
    buffer = np.empty(size, np.uint8).data if size else memoryview(b"")
    filled = 0
    while filled < size:
        count = end.recv_into(buffer[filled:])
        if not count:
            return None
        filled += count
    return buffer


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
