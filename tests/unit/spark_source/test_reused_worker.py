import gc

from pyspark import TaskContext

from spark_source import reused_worker


def test_a_worker_of_spark_does_not_collect_its_modules_after_each_task():
    before = gc.get_freeze_count()
    reused_worker.spare_modules_from_collection()
    assert gc.get_freeze_count() == before  # this process is no Spark worker yet
    TaskContext._getOrCreate()
    try:
        reused_worker.spare_modules_from_collection()
        frozen = gc.get_freeze_count()
        assert frozen > before + 10_000
        reused_worker.spare_modules_from_collection()
        assert gc.get_freeze_count() <= frozen  # a second task freezes nothing more, so its objects can be collected
    finally:
        TaskContext._taskContext = None
        gc.unfreeze()
        reused_worker._freeze_once.cache_clear()
