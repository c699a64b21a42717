"""Moves a group's offsets from ZooKeeper to Kafka, and back until the migration is finished.

docs/migrate.md describes the steps, for a stopped group and for one whose members move one by one.
"""

from __future__ import annotations

from legacy_consumer.operations.admin.migration.apply import Outcome, apply_migration
from legacy_consumer.operations.admin.migration.finish import finish_migration
from legacy_consumer.operations.admin.migration.picture import Look, PartitionLook, Sides, look_at
from legacy_consumer.operations.admin.migration.plan import Action, Choices, Direction, MigrationPlan, Move, make_plan
from legacy_consumer.operations.admin.migration.record import MigrationRecord, Phase, read_record, read_records
from legacy_consumer.operations.admin.migration.rollback import roll_back_migration
from legacy_consumer.operations.admin.migration.verify import Finding, Verification, verify_migration

__all__ = [
    "Action",
    "Choices",
    "Direction",
    "Finding",
    "Look",
    "MigrationPlan",
    "MigrationRecord",
    "Move",
    "Outcome",
    "PartitionLook",
    "Phase",
    "Sides",
    "Verification",
    "apply_migration",
    "finish_migration",
    "look_at",
    "make_plan",
    "read_record",
    "read_records",
    "roll_back_migration",
    "verify_migration",
]
