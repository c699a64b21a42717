"""Unit tests of zk_layout.loggers."""

from __future__ import annotations

import copy
import logging
import pickle
import threading

import pytest

from zk_layout.loggers import safe_logger


class Handler(logging.Handler):
    """A handler that keeps the records, and raises the given error at each one."""

    def __init__(self, error=None):
        super().__init__()
        self.records = []
        self.error = error

    def emit(self, record):
        self.records.append(record)
        if self.error is not None:
            raise self.error


@pytest.fixture
def add_handler(request):
    def add(name, error=None):
        handler = Handler(error)
        logging.getLogger(name).addHandler(handler)
        request.addfinalizer(lambda: logging.getLogger(name).removeHandler(handler))
        return handler

    return add


def test_what_a_handler_raises_goes_to_standard_error(add_handler, capsys):
    handler = add_handler("zk_layout.x", ValueError("the disk is full"))
    safe_logger("zk_layout.x").warning("look at %s", "this")
    assert [record.getMessage() for record in handler.records] == ["look at this"]
    shown = capsys.readouterr().err
    assert "ValueError: the disk is full" in shown
    assert "look at %s" in shown


def test_a_handler_that_raises_is_silent_where_logging_shows_no_errors(add_handler, capsys, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    add_handler("zk_layout.x", ValueError("the disk is full"))
    safe_logger("zk_layout.x").warning("look")
    assert capsys.readouterr().err == ""


def test_a_message_that_cannot_be_made_does_not_reach_the_code_that_logs(capsys):
    safe_logger("zk_layout.x").warning("%s and %s", 1)
    assert "TypeError" in capsys.readouterr().err


def test_a_handler_that_exits_ends_the_program_from_the_main_thread_and_no_other_thread(add_handler):
    handler = add_handler("zk_layout.x", SystemExit(3))
    with pytest.raises(SystemExit):
        safe_logger("zk_layout.x").error("from the main thread")
    after = threading.Event()

    def log():
        safe_logger("zk_layout.x").error("from another thread")
        after.set()

    thread = threading.Thread(target=log)
    thread.start()
    thread.join()
    assert after.is_set()
    assert len(handler.records) == 2


def test_an_interrupt_in_a_handler_reaches_the_user(add_handler):
    add_handler("zk_layout.x", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        safe_logger("zk_layout.x").error("look")


def test_levels_and_filters_are_those_of_the_public_logger(add_handler, request):
    handler = add_handler("zk_layout")
    public, logger = logging.getLogger("zk_layout.x"), safe_logger("zk_layout.x")
    request.addfinalizer(lambda: public.setLevel(logging.NOTSET))
    public.setLevel(logging.ERROR)
    logger.warning("too low")
    public.setLevel(logging.DEBUG)
    logger.debug("high enough")
    unwanted = logging.Filter("nothing")
    public.addFilter(unwanted)
    request.addfinalizer(lambda: public.removeFilter(unwanted))
    logger.debug("filtered")
    assert [(record.name, record.getMessage()) for record in handler.records] == [("zk_layout.x", "high enough")]


def test_a_record_names_the_line_that_logged(add_handler):
    handler = add_handler("zk_layout.x")
    safe_logger("zk_layout.x").warning("look")
    assert (handler.records[0].filename, handler.records[0].funcName) == (
        "test_loggers.py",
        "test_a_record_names_the_line_that_logged",
    )


def test_text_of_another_client_forges_no_line_and_fills_no_disk(add_handler):
    handler = add_handler("zk_layout.x")
    logger = safe_logger("zk_layout.x")
    logger.warning("owned by %s", "b\nERROR forged\x1b[2J")
    logger.warning("owned by %s", "b" * 50_000)
    forged, long = (record.getMessage() for record in handler.records)
    assert forged == r"owned by b\nERROR forged\x1b[2J"
    assert long.startswith("owned by bbb")
    assert len(long) < 1000


def test_arguments_of_a_clean_message_stay_with_the_record(add_handler):
    handler = add_handler("zk_layout.x")
    safe_logger("zk_layout.x").warning("%d partitions", 3)
    assert (handler.records[0].msg, handler.records[0].args) == ("%d partitions", (3,))


def test_the_text_of_an_error_forges_no_line_in_a_traceback(add_handler):
    handler = add_handler("zk_layout.x")
    try:
        raise ValueError("no\n12:00:00 ERROR forged\x1b[2J")
    except ValueError:
        safe_logger("zk_layout.x").exception("failed")
    first, *lines = logging.Formatter("%(asctime)s %(message)s").format(handler.records[0]).splitlines()
    assert first.endswith(" failed")
    assert all(line.startswith("    ") and line.isprintable() for line in lines)
    assert lines[-1].strip() == r"12:00:00 ERROR forged\x1b[2J"


def test_a_logger_can_be_copied_and_pickled():
    """Spark may pickle a module by value, with its logger."""
    logger = safe_logger("zk_layout.x")
    for other in (copy.deepcopy(logger), pickle.loads(pickle.dumps(logger))):
        assert (type(other), other.name) == (type(logger), "zk_layout.x")
