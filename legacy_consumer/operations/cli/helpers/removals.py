"""The common part of commands that remove groups: show what they would delete, write a backup, delete."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.deletion import delete_tree
from legacy_consumer.operations.admin.errors import GroupChangedError, GroupHeldError
from legacy_consumer.operations.admin.findings import shell_command
from legacy_consumer.operations.admin.pruning import GroupUse
from legacy_consumer.operations.cli.helpers.execution import back_up, execution_options, narrow, say_touched, touched
from legacy_consumer.operations.cli.helpers.group_tables import GOOD, count
from legacy_consumer.operations.cli.helpers.outputs import Output
from legacy_consumer.operations.cli.helpers.progress_bar import progress_bar
from legacy_consumer.operations.cli.helpers.tables import say, say_all, say_error
from zk_layout.errors import NotPermittedError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

removal_options = execution_options(
    without="the command only lists what it would remove", dry_run="list what would be removed"
)


class Removed(NamedTuple):
    """groups: the deleted groups. is_permitted: no ACL forbade a deletion."""

    groups: frozenset[str] = frozenset()
    is_permitted: bool = True


def say_migrated(use: list[GroupUse]) -> None:
    """Warn about migrated groups: ZooKeeper may hold the only copy of offsets that the brokers have deleted."""
    migrated = [one.group for one in use if one.is_migrated]
    if migrated:
        more = f" and {len(migrated) - 3} more" if len(migrated) > 3 else ""
        finish = shell_command(migrated[0], "migrate", "finish", "--delete")
        say_error(
            f"Note: {', '.join(migrated[:3])}{more} migrated. This command does not ask the brokers whether they still "
            f"have the offsets; {finish} deletes a group only if they do"
        )


def delete_all(
    store: ZkStore,
    use: list[GroupUse],
    *,
    topic: str | None,
    backup_dir: Path | None,
    output: Output = Output.TABLE,
    leave_used: bool = False,
) -> Removed:
    """Back up and delete the read znodes, one group after the other. On an error, a line names the deleted groups.

    output: that of the command; with JSON and CSV the last line goes to standard error.
    leave_used: skip a group that another client uses by now, or that an ACL protects, and delete the others.
    """
    backup = None
    if backup_dir is not None and use:
        name = use[0].group if len(use) == 1 else "groups"
        offsets, unreadable = _offsets(use, topic)
        marks = {of: mark for one in reversed(use) for of, mark in one.marks.items() if topic in {None, of}}
        backup = back_up(store, backup_dir, name, offsets, unreadable, marks)
        _say_unreadable(unreadable)
    gone: list[GroupUse] = []
    begun: dict[str, ChangeProgress] = {}
    is_permitted = True
    try:
        with progress_bar("deleting groups", len(use)) as advance:
            for one in use:
                if backup is not None:
                    backup.begin(one.group)
                progress = begun[one.group] = ChangeProgress()
                try:
                    delete_tree(store, one.tree, topic=topic, progress=progress)
                    gone.append(one)
                except (ActiveGroupError, GroupChangedError, GroupHeldError) as error:
                    if not leave_used or progress.may_be_changed:
                        raise
                    say_error(f"Left alone: {error}")
                except NotPermittedError as error:
                    if progress.may_be_changed:
                        say_error(f"Group {one.group} was deleted only in part: {error}")
                    elif leave_used:
                        say_error(f"Left alone: {error}")
                    if not leave_used:
                        raise
                    is_permitted = False
                advance(1)
    except BaseException as error:
        if gone:
            say_all(
                "Deleted before it stopped: ",
                (each.group for each in gone),
                "; the groups after these are not done, run the same command again without those that are gone.",
            )
        say_touched(error, begun, [each.group for each in gone])
        raise
    finally:
        narrow(backup, touched(begun) | {each.group for each in gone})
    what = "" if topic is None else f" topic {topic} of"
    done = f"Deleted{what}: {_names(gone) or 'nothing'}"
    if output is Output.TABLE:
        say(done, GOOD if gone else "")
    else:
        say_error(done)
    return Removed(frozenset(one.group for one in gone), is_permitted)


def _offsets(
    use: list[GroupUse], topic: str | None
) -> tuple[dict[str, dict[TopicPartition, int | None]], dict[str, dict[TopicPartition, bytes]]]:
    """Return the offsets and the unreadable data; with a topic only the topic's, since the others stay."""
    return (
        {one.group: {tp: o for tp, o in one.offsets.items() if topic in {None, tp.topic}} for one in use},
        {one.group: {tp: d for tp, d in one.unreadable.items() if topic in {None, tp.topic}} for one in use},
    )


def _say_unreadable(unreadable: dict[str, dict[TopicPartition, bytes]]) -> None:
    many = sum(map(len, unreadable.values()))
    if many:
        group, found = next((group, found) for group, found in unreadable.items() if found)
        tp, data = next(iter(found.items()))
        say_error(
            f"Warning: {count(many, 'offset')} cannot be read, and importing the backup will not put it back: "
            f"{group} {tp} holds {data[:80]!r}"
        )


def _names(use: list[GroupUse]) -> str:
    return ", ".join(one.group for one in use)
