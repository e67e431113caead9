"""Every error that a user can meet, with the exit code of the command."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INCONCLUSIVE = 98
EXIT_THRESHOLD = 99
EXIT_SIGNAL = 128
"""A process that a signal ended exits with this and the signal's number, as shells have it."""
EXIT_INTERRUPTED = 130

# Between a signal and the work that it ended.
SIGNAL_DURING = " while "


_CONTROLS = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (
        # Line ends and tabs stay. Beside the controls: marks that turn the direction of text.
        *range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x200E, 0x200F,
        *range(0x2028, 0x202F), *range(0x2066, 0x206A),
    )
}  # fmt: skip


def visible(text: str) -> str:
    """Return ``text`` with its control characters escaped: a terminal would obey them."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return ``text`` in one line, its control characters escaped: a peer may have written it."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


class QuiverError(Exception):
    """A failure that is reported to the user as one line on standard error."""

    exit_code = EXIT_FAILURE

    def __str__(self) -> str:
        """Return the text as whoever prints it may print it."""
        return one_line(super().__str__())


class UsageError(QuiverError):
    """The arguments are wrong; nothing was started."""

    exit_code = EXIT_USAGE


class PeerError(QuiverError):
    """The peer could not be reached, refused, closed the connection or fell silent."""


class SecurityError(PeerError):
    """TLS or SASL failed; the message names the certificate or mechanism and the reason."""


class SignalError(QuiverError):
    """A signal ended the work; the records until then are kept.

    Attributes:
        signal_number: the signal's number.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = EXIT_SIGNAL + signal_number

    def during(self, work: str) -> SignalError:
        """Return this error with the work that the signal ended."""
        return SignalError(f"{self}{SIGNAL_DURING}{work}", self.signal_number)


class LinkError(QuiverError):
    """The peer refused, ended or detached the session or link."""


class MessageError(QuiverError):
    """A received message breaks the contract."""


class OutcomeError(QuiverError):
    """The peer did not accept every message; the message has the counts."""


class TransactionError(QuiverError):
    """A transaction could not be declared or discharged."""


class OutputError(QuiverError):
    """Records could not be written (for example: pipe closed, disk full)."""


class RecordError(QuiverError):
    """A line of a records file is not a record of the expected format."""
