"""One DataFrame asked again and again, while the cluster changes: each answer is that of a fresh DataFrame."""

from tests.spark.asking import Asking

SEED = 17


def test_one_frame_of_offsets_answers_each_query_as_a_fresh_one_does(spark, tree):
    def load():
        reader = spark.read.format("zk_offsets").option("zookeeper.connect", tree.connect).option("numPartitions", "2")
        return reader.schema("group string, topic string, partition int, committed_offset bigint").load()

    names = [f"g{n}" for n in (1, 3, 5)]
    for group in names:
        for partition in range(3):
            tree.commit(group, "t", partition, partition)
    literals = {"group": [f"'g{n}'" for n in (1, 3, 4, 5)], "partition": ["0", "1", "2"]}
    asking = Asking(spark, load(), literals, SEED)
    assert asking.differences(load()) == []
    # one that sorts before all others, one that lies where the tasks meet, one behind all; one less
    for group in ("g0", "g4", "g7"):
        tree.commit(group, "t", 2, 7)
    tree.store.set_data("/consumers/g3/offsets/t/1", b"70")
    tree.store.delete("/consumers/g5/offsets/t/0")
    assert asking.differences(load()) == []
