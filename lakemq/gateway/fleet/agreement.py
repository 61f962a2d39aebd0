"""A follower's log before it is opened: where its primary's goes on otherwise, what the primary lacks is cut.

Up to where both are the same their epochs say. That is not believed blindly: the last frame before has to be the same
one at both. Where it isn't, as a bit has changed on a disk, or two have written in the same epoch, the follower goes
further back, and takes from its primary what is between.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark
from lakemq.gateway.fleet.primary import Greeting, Primary, check_log
from lakemq.model.agreement import History, agreed
from lakemq.model.errors import PositionGone
from lakemq.settings import Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.log.cutting import Cut
from lakemq.storage.log.next_frames import Diverged
from lakemq.storage.log.positions import Reserved, note_given
from lakemq.storage.mend.closed_log import Border, ClosedLog
from lakemq.storage.mend.truncate import cut_log
from lakemq.storage.segment.frame import KIND_HOLE, FrameError, LogEpoch
from lakemq.storage.segment.segment import Frame, open_frame

logger = logging.getLogger(__name__)
STEPS_MAX = 40
"""So often it goes further back, twice as far each time."""


SAME = "it is the same"
ANOTHER = "it is another one"
UNSOUND = "it is not sound"
UNKNOWN = "there is none here, or no longer one there"
UNSHOWN = "it is not confirmed there"


class Parted(Diverged):
    """The same log, with another history: a start cuts what the primary lacks."""


def check_history(log_id: str, own: History, its: Greeting) -> None:
    """Raise `Diverged` unless the log goes on as its primary's does: `Parted` where a cut mends that. A primary that
    says nothing of its epochs has all that it sent."""
    check_log(log_id, its.log_id)
    if not its.history.epochs:
        return
    common = agreed(own, its.history)
    if common is None:
        raise Diverged(f"the primary's epochs are known from {its.history.epochs[0]} on, and this log has none of them")
    if common < own.end:
        how = f"this log ends with position {own.end} in epoch {own.epochs[-1][0]}"
        raise Parted(f"{how}, and the primary's goes on otherwise from {common} on, in epoch {its.epoch}")


def agree(primary: Primary, files: Files, settings: Settings, floor: int) -> Cut | None:
    """Cut the log in its folder, which nobody has open, where it has what the primary lacks. Returns the cut, or the
    one that a start before didn't end. Nothing below `floor` is cut, nor what is confirmed or in the lake.

    Raises `NoAnswer` and `LakemqError` where the primary can't be asked, or the log not be read; `Diverged` and
    `CutRefused` where the two can't be brought together, and `OSError` where the disk doesn't let it: the log is as it
    was, or cut when it is opened.
    """
    closed = ClosedLog(files, settings.storage.data_dir / "commitlog")
    its, own = primary.greet(), closed.history
    check_log(closed.identity.log_id, its.log_id)
    now = closed.identity.now
    if its.epoch > now.epoch:
        note_given(files, closed.directory, LogEpoch(now.log_id, its.epoch), its.max_position)
    try:
        check_history(closed.identity.log_id, own, its)
        common = own.end
    except Parted as parted:
        logger.warning("%s", parted)
        common = agreed(own, its.history) or 0
    same = _same_up_to(primary, closed, min(common, own.end), its)
    if same.position >= own.end:
        return closed.cut_before
    if same.position < its.min_position:
        begins = f"the primary's begins with {its.min_position}"
        raise Diverged(f"both are the same up to position {same.position}, and {begins}")
    floor = max(floor, _known_floor(files, settings, closed, same.position))
    # What is damaged here may be mended here: the log stays as it is, rather than not be followed.
    position = common if same.is_damage and same.position < floor else same.position
    leaders = Reserved(its.epoch, its.max_position)
    return cut_log(closed, position, floor, leaders, settings.storage.cut_bytes_max) or closed.cut_before


def _known_floor(files: Files, settings: Settings, closed: ClosedLog, same: int) -> int:
    """Up to there the log is confirmed, or in the lake, as far as that is known here. `same`: up to there it is the
    primary's too. A lake that has come beyond this log's end has that from the primary."""
    data_dir, log_id = settings.storage.data_dir, closed.identity.log_id
    confirmed = ConfirmedMark(files, data_dir).read(log_id).position
    if not settings.lake.verify:
        return confirmed
    held = CertainLake(settings.lake.dir, settings.broker.name).look(log_id=log_id).position
    return max(confirmed, held) if same < held <= closed.history.end else confirmed


class _Same(NamedTuple):
    """Both have the same messages up to `position`. `is_damage`: between there and where they should be the same, only
    frames that are not sound here differ."""

    position: int
    is_damage: bool = False


def _same_up_to(primary: Primary, closed: ClosedLog, common: int, its: Greeting) -> _Same:
    """`common`, where the frame before it is the same at both, of those that the primary shows everybody; else the last
    frame's end before it where that is so. Raises `Diverged` where none is found, and as `Primary` does."""
    least = closed.min_position
    if common <= least:
        return _Same(common)
    unlike = closed.border(common)
    found = _compare(primary, closed, unlike)
    if found == UNSHOWN:
        unlike = closed.border(max(min(common, its.confirmed_position), least))
        found = _compare(primary, closed, unlike)
    if found in (SAME, UNKNOWN, UNSHOWN):
        return _Same(common)
    is_damage = found == UNSOUND
    for step in range(STEPS_MAX):
        border = closed.border(max(unlike.position - 2**step, least))
        found = _compare(primary, closed, border)
        if found == SAME:
            return _Same(_last_same(primary, closed, border, unlike), is_damage)
        if found in (UNKNOWN, UNSHOWN):
            break
        unlike, is_damage = border, is_damage and found == UNSOUND
    raise Diverged(f"no frame before position {common} was found that is the same at the primary and here")


def _last_same(primary: Primary, closed: ClosedLog, like: Border, unlike: Border) -> int:
    """The last frame's end up to which both are the same: from the first of these on, and not up to the second."""
    while True:
        middle = closed.border((like.position + unlike.position) // 2)
        if middle.position == like.position:
            middle = closed.border(unlike.position - 1)
        if middle.position == like.position:
            return like.position
        if _compare(primary, closed, middle) == SAME:
            like = middle
        else:
            unlike = middle


def _compare(primary: Primary, closed: ClosedLog, border: Border) -> str:
    """How the frame that ends there is to the primary's."""
    own = closed.frame_before(border)
    if not own:
        return UNKNOWN
    try:
        theirs = primary.frame_of(border.position - 1)
    except PositionGone:
        return UNKNOWN
    if not theirs:
        return UNSHOWN
    try:
        found = SAME if own == theirs or says_the_same(open_frame(own), open_frame(theirs)) else ANOTHER
    except FrameError:
        found = UNSOUND
    if found != SAME:
        logger.warning("the frame before position %d differs from the primary's: %s", border.position, found)
    return found


def says_the_same(own: Frame, its: Frame) -> bool:
    """Whether two sound frames are of the same messages, one of them written anew since: after an erasure, or from the
    lake."""
    mine, theirs = own.meta, its.meta
    if (mine.log, mine.store_time_ms) != (theirs.log, theirs.store_time_ms):
        return False
    is_whole = (mine.first_position, mine.count) == (theirs.first_position, theirs.count)
    if not is_whole or KIND_HOLE in (mine.kind, theirs.kind):
        return True
    return (mine.kind, mine.runs) == (theirs.kind, theirs.runs) and own.batch.equals(its.batch)
