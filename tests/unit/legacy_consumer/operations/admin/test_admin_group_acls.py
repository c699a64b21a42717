"""ACLs of a group: in files, in plans, and as the doctor sees them."""

import json

import pytest

from legacy_consumer.operations.admin.backups import write_backups
from legacy_consumer.operations.admin.errors import BadOffsetFileError
from legacy_consumer.operations.admin.group_acls import GroupAcls, mixed_acls, read_group_acls
from legacy_consumer.operations.admin.offset_files import OffsetFormat, read_offsets, write_offsets
from legacy_consumer.operations.admin.offset_plans import make_plan
from legacy_consumer.operations.admin.offset_writes import write_plan
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition
from zk_layout.paths import acl_models
from zk_layout.store import EVERYBODY, AclEntry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALICE = (AclEntry(31, "digest", "alice:abc="), AclEntry(1, "world", "anyone"))
SECURED = GroupAcls(EVERYBODY, ALICE)


@pytest.fixture
def store():
    made = MemoryStore(MemoryZooKeeper())
    made.start()
    return made


def secured(store, group, *partitions):
    store.ensure_path(f"/consumers/{group}", acl=EVERYBODY)
    store.ensure_path(f"/consumers/{group}/offsets/t", acl=ALICE)
    for number, acl in enumerate(partitions):
        store.create(f"/consumers/{group}/offsets/t/{number}", b"5", acl=acl)


def test_a_backup_contains_the_acls_of_the_group():
    text = write_offsets({"g": {T0: 5}, "open": {T0: 1}}, OffsetFormat.JSON, acls={"g": SECURED, "other": SECURED})
    assert read_offsets(text, "f").acls == {"g": SECURED}


@pytest.mark.parametrize("entry", ['"world", "\\ud800"', '"\\ud800", "anyone"'])
def test_an_acl_with_half_a_character_is_refused_with_the_file(entry):
    """It was refused as a defect when it was sent, behind the backup."""
    text = write_offsets({"g": {T0: 5}}, OffsetFormat.JSON, acls={"g": GroupAcls(EVERYBODY, EVERYBODY)})
    document = json.loads(text)
    document["acls"]["g"]["folder"] = json.loads(f"[[31, {entry}]]")
    with pytest.raises(BadOffsetFileError, match="an entry of an ACL is no"):
        read_offsets(json.dumps(document), "f")


@pytest.mark.parametrize(("acls", "mode"), [({"g": SECURED}, 0o600), ({}, 0o666)])
def test_a_backup_with_digests_is_for_its_user_alone(tmp_path, acls, mode):
    file = write_backups(tmp_path, "g", {"g": {T0: 5}}, acls=acls)
    assert file.stat().st_mode & 0o777 & ~mode == 0


@pytest.mark.parametrize(
    "acl", ["3", "{}", '{"folder": [], "offsets": []}', '{"folder": [[1]], "offsets": [[31, "world", "anyone"]]}']
)
def test_an_acl_that_is_none_is_named_with_its_line(acl):
    text = f'{{"version": 1, "offsets": {{"g": {{"t": {{"0": 5}}}}}},\n"acls": {{\n"g": {acl}}}}}'
    with pytest.raises(BadOffsetFileError, match="line 3"):
        read_offsets(text, "f")


def test_a_group_that_everybody_may_write_has_none_to_keep(store):
    store.create("/consumers/g/offsets/t/0", b"5", make_parents=True)
    assert read_group_acls(store, ["g", "missing"]) == {}


def test_an_acl_that_the_server_does_not_tell_is_not_kept_and_the_group_is_named(store, caplog):
    secured(store, "told", ALICE)
    store.create("/consumers/open/offsets/t/0", b"5", make_parents=True)
    for group in ("g", "h"):
        store.ensure_path(f"/consumers/{group}", acl=EVERYBODY)
        store.ensure_path(f"/consumers/{group}/offsets", acl=(AclEntry(31, "digest", "alice:x"),))
    assert read_group_acls(store, ["g", "told", "open", "h"]) == {"told": SECURED}
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(
        "these credentials may not see the whole ACL of group g, h, so it is not kept"
    )


def test_a_group_that_a_plan_makes_has_the_acls_of_the_plan(store):
    secured(store, "g", ALICE)
    assert read_group_acls(store, ["g"]) == {"g": SECURED}
    write_plan(store, make_plan(store, "copy", None, {T0: 5}, SECURED))
    assert read_group_acls(store, ["copy"]) == {"copy": SECURED}


def test_the_doctor_names_groups_with_znodes_that_every_client_may_write(store):
    secured(store, "mixed", ALICE, EVERYBODY)
    secured(store, "sound", ALICE, ALICE)
    store.create("/consumers/open/offsets/t/0", b"5", make_parents=True)
    (finding,) = mixed_acls(store, {"mixed": [T0, T1], "sound": [T0, T1], "open": [T0], "missing": []})
    assert (finding.code, finding.subject) == ("mixed_acls", "mixed")
    assert finding.text == (
        "group mixed: anybody may write /consumers/mixed/offsets/t/1, though not /consumers/mixed/offsets"
    )


def test_single_offsets_of_open_groups_are_not_asked_for(store, monkeypatch):
    store.create("/consumers/open/offsets/t/0", b"5", make_parents=True)
    asked = []
    read = store.read_acls
    monkeypatch.setattr(store, "read_acls", lambda paths: asked.extend(paths) or read(paths))
    assert list(mixed_acls(store, {"open": [T0]})) == []
    assert "/consumers/open/offsets/t/0" not in asked


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/consumers/g/offsets/t/0", ["/consumers/g/offsets/t", "/consumers/g/offsets", "/consumers/g/owners"]),
        ("/consumers/g/offsets", ["/consumers/g/owners", "/consumers/g/requests", "/consumers/g/migration"]),
        ("/consumers/g/requests/reset", ["/consumers/g/requests", "/consumers/g/offsets", "/consumers/g/owners"]),
        ("/consumers/g", ["/consumers", "/"]),
        ("/config/topics/t", ["/config/topics", "/config", "/"]),
        ("/a", ["/"]),
    ],
)
def test_a_created_znode_has_the_acl_of_the_znodes_beside_it(path, first):
    assert list(acl_models(path))[: len(first)] == first
    assert acl_models(path)[-1] == "/"
