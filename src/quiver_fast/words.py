"""Numbers in sentences."""

from __future__ import annotations


def counted(count: float, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Return ``1 message`` or ``2,000 messages``, followed by one of ``verbs`` ("is", "are")."""
    verb = "" if verbs is None else f" {verbs[count != 1]}"
    ending = "" if count == 1 else "ies" if noun.endswith(("ry", "py")) else "s"
    return f"{count:,} {noun.removesuffix('y') if ending == 'ies' else noun}{ending}{verb}"
