from pathlib import Path

from quiver_fast.queuefile.layout import RollCycle
from quiver_fast.queuefile.table import Table

def recover_queue(
    directory: Path,
    roll: RollCycle,
    table: Table,
    *,
    verify: bool,
    text_check: object = None,
) -> tuple[list[int], int]: ...
