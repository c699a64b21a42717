"""A story in which each command succeeds once; the stories of seeds may never come to some commands."""

from __future__ import annotations

from tests.simulation.operators.world import GROUPS, PARTITIONS


def carry_out_everything(operators):
    """Give reset, copy, the doctor's advice, delete, a migration forward, back and forward again, and prune.

    Each command is given twice, and the model checks all rules after each. Raises: AssertionError.
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
