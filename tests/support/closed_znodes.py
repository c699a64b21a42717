"""Closes a znode to a client, as an ACL does."""

from zk_layout.errors import NotPermittedError


def close_owner(monkeypatch, store, tp):
    """Make the store refuse reads of this partition's owner znode. Returns: the error that it raises then."""
    path = f"/consumers/g/owners/{tp.topic}/{tp.partition}"
    closed, exists_many = NotPermittedError(path), store.exists_many

    def refuse(paths, *more):
        if path in paths:
            raise closed
        return exists_many(paths, *more)

    monkeypatch.setattr(store, "exists_many", refuse)
    return closed
