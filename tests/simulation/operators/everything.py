"""A story in which each command does its work: seeds draw what happens, and may never come to some of them."""

from __future__ import annotations

from tests.simulation.operators.world import GROUPS, PARTITIONS


def carry_out_everything(operators):
    """reset, copy, the doctor's advice, delete, a migration there, back and there again, prune, and their backups.

    Each is given twice; after each the whole model is asked. Raises: AssertionError.
    """
    world = operators.world
    first = PARTITIONS[0]
    world.member_comes("h")
    operators.carry_out(["offsets", "reset", "h", "--to-offset", "15", "--live", "--timeout", "5"])
    world.member_goes("h")
    operators.carry_out(["offsets", "reset", "g", "--to-offset", "40"])
    operators.carry_out(["offsets", "copy", "g", "h"])
    world.truncate(first, 90)
    before = world.numbers()
    assert operators.follow_the_doctor(""), "an offset before the log is advised about"
    assert world.numbers() != before, "the advice changes something"
    operators.agree()
    operators.carry_out(["groups", "delete", "h", "--topic", "u"])
    operators.carry_out(["offsets", "reset", "g", "--to-offset", "92"])
    operators.carry_out(["offsets", "reset", "g", "--shift-by", "1"])
    operators.carry_out(["migrate", "apply", "g"])
    operators.check_sound("g")
    operators.consume_newer("g")
    operators.carry_out(["migrate", "rollback", "g"])
    operators.carry_out(["migrate", "apply", "g"])
    operators.check_sound("g")
    operators.carry_out(["migrate", "finish", "g"])
    assert operators.prune() == set(GROUPS)
    operators.agree()
    operators.carry_out(["groups", "delete", "g"])
