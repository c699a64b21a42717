"""Two co-partitioned topics, joined by a Spark stream: each order with its payment.

    python examples/join_streams.py

On a ZooKeeper and a broker of its own. Orders and payments have the order number as their key, and both topics as many
partitions, so an order and its payment stand in the partition of the same number. A payment comes within an hour after
its order, if at all. Spark keeps what may still find its other half, and forgets it an hour and a half later, by the
times of the messages; so its memory does not grow with the topics.

The stream runs twice, and goes on the second time where it was stopped: a payment of then finds its order of before.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from legacy_consumer import LegacyConsumerError
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import Record, produce_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 3
START_MS = 1_356_998_400_000
MINUTE_MS = 60_000
WAIT_S = 300


@click.command(epilog="Example: python examples/join_streams.py --orders 3000")
@click.option("--orders", default=3000, show_default=True, help="How many orders to make, one each minute.")
def main(orders: int) -> None:
    """Join two topics, and see that each payment found its order."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Spark and its folder go first
    with tempfile.TemporaryDirectory(prefix="join-") as folder, EmbeddedKafka(chroot="/kafka") as kafka:
        spark = start_spark(folder)
        try:
            first, found = join_twice(spark, kafka, Path(folder), orders)
        finally:
            spark.stop()
    click.echo(f"{first} payments found their orders, then {found - first} more when the stream went on")
    expected = len(paid(0, orders))
    if found != expected:
        click.echo(f"error: {found} of {expected} payments found their orders", err=True)
        sys.exit(1)
    click.echo(f"each of {expected} payments found its order once")


def join_twice(spark: SparkSession, kafka: EmbeddedKafka, folder: Path, orders: int) -> tuple[int, int]:
    """Run the stream on one half of the messages, then on all; how many pairs there were, each time.

    Payments come later than orders: 30 orders of the first half are paid in the second.
    """
    for topic in ("orders", "payments"):
        kafka.create_topic(topic, partitions=PARTITIONS)
    half = orders // 2
    produce(kafka, "orders", range(half), after_minutes=0)
    produce(kafka, "payments", paid(0, half - 30), after_minutes=20)
    first = join(spark, kafka.zookeeper_connect, folder)
    produce(kafka, "orders", range(half, orders), after_minutes=0)
    produce(kafka, "payments", paid(half - 30, orders), after_minutes=20)
    return first, join(spark, kafka.zookeeper_connect, folder)


def paid(first: int, end: int) -> range:
    """Every other order is paid."""
    return range(first + first % 2, end, 2)


def produce(kafka: EmbeddedKafka, topic: str, numbers: range, *, after_minutes: int) -> None:
    """The messages of these orders, in the partition that the number says, and with their own times."""
    records = [
        Record(b"%d" % n, b"%d" % (n * 10), n % PARTITIONS, START_MS + (n + after_minutes) * MINUTE_MS) for n in numbers
    ]
    produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})


def join(spark: SparkSession, zookeeper: str, folder: Path) -> int:
    """Join what there is, from where the checkpoint stands; how many pairs the output holds then."""
    from pyspark.sql import functions as f

    def read(topic: str) -> DataFrame:
        return (
            spark.readStream.format("zk_messages")
            .schema("key binary, value binary, partition int, timestamp timestamp")
            .options(**{"zookeeper.connect": zookeeper, "topics": topic, "maxOffsetsPerTrigger": "1000"})
            .load()
            .select(
                f.col("key").alias("number"), "partition", "value", f.col("timestamp").alias("at")
            )
            .withWatermark("at", "30 minutes")
            .alias(topic)
        )  # fmt: skip

    pairs = (
        read("orders")
        .join(
            read("payments"),
            f.expr(
                "orders.partition = payments.partition AND orders.number = payments.number "
                "AND payments.at BETWEEN orders.at AND orders.at + INTERVAL 1 HOUR"
            ),
        )
        .selectExpr("cast(orders.number AS string) AS number", "orders.at AS ordered", "payments.at AS paid")
    )
    output = folder / "pairs"
    query = (
        pairs.writeStream.format("parquet")
        .option("path", str(output))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(WAIT_S):
        raise click.ClickException(f"Spark did not come to the end within {WAIT_S} s")
    found = spark.read.schema("number string").parquet(str(output))
    count, distinct = found.count(), found.distinct().count()
    if count != distinct:
        raise click.ClickException(f"{count - distinct} payments were joined twice")
    return count


def start_spark(folder: str) -> SparkSession:
    """A quiet Spark that leaves nothing outside of the folder."""
    from pyspark.sql import SparkSession

    from spark_source import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "spark.local.dir": folder,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("join").config(map=settings).getOrCreate()
    register(spark)
    return spark


if __name__ == "__main__":
    try:
        main()
    except LegacyConsumerError as error:
        raise SystemExit(f"Error: {error}") from None
