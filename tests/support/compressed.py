"""The forms of compression of others' record files, made without our code."""

import binascii
import bz2
import gzip
import lzma
from codecs import BOM_UTF8

import zstandard

from quiver_fast.records.compression import HEAD_SIZE, form_of

FORMS = {
    ".zst": zstandard.compress,
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
}

# First bytes of a file in a form that is not read, and the command that an error names.
REFUSED = {
    ".lz4": (b"\x04\x22\x4d\x18\x64\x40", "lz4 -dc"),
    ".lz": (b"LZIP\x01\x0c", "lzip -dc"),
    ".lzma": (lzma.compress(b"1", lzma.FORMAT_ALONE), "xz -dc"),
    ".Z": (b"\x1f\x9d\x90", "gzip -dc"),
    ".zip": (b"PK\x03\x04\x14\0", "unzip -p"),
    ".7z": (b"7z\xbc\xaf\x27\x1c\0\x04", "7z x -so"),
}


def xz_of_large_dictionary(text: bytes) -> bytes:
    """Return an xz file whose header asks its reader for a dictionary of 1 GiB."""
    data = bytearray(lzma.compress(text))
    size = (data[12] + 1) * 4
    header = data[12 : 12 + size - 4]
    # After sizes and flags come the filter, the size of its properties and the dictionary's.
    place = header.index(b"\x21\x01") + 2
    header[place] = 36
    data[12 : 12 + size] = header + binascii.crc32(header).to_bytes(4, "little")
    return bytes(data)


def is_plain(text: bytes) -> bool:
    """Say whether these bytes are plain text: not compressed, and without a mark.

    Random text may begin like another form, and hypothesis does find such texts.
    """
    return form_of(text[:HEAD_SIZE]) is None and not text.startswith(BOM_UTF8)
