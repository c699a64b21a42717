"""A group of /consumers stops, a Spark stream takes over from its offsets, stops, and the group goes on behind it.

    python examples/takeover.py

On a ZooKeeper and a broker of its own, with the flights that left New York City in 2013:

1. A member of the group `delays` consumes a part of the flights, adds up delays by carrier, and stops.
2. A Spark stream begins where the group stands, as the group's only member, writes delays by carrier into Parquet, a
   folder for each batch, commits its progress to /consumers, and stops.
3. The group goes on where Spark stopped.

At the end each flight must have been counted once: not lost, not twice.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from legacy_consumer import ConsumerConfig, ConsumerConnector, LegacyConsumerError
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.sandbox.quickstart.flights import find_flights, read_flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "flights"
GROUP = "delays"
PARTITIONS = 3
WAIT_S = 300

Delays = dict[str, Counter[str]]
"""{carrier: flights, minutes of arrival delay, and the sum of the numbers, which tells flights from each other}"""


@click.command(epilog="Example: python examples/takeover.py --flights 30000 --master 'local-cluster[2,1,1024]'")
@click.option("--flights", default=100_000, show_default=True, help="How many flights to use, of 336,776.")
@click.option("--master", default="local[2]", show_default=True, help="Where Spark runs.")
def main(flights: int, master: str) -> None:
    """Hand a group of /consumers over to Spark and back, and see that no flight is lost or counted twice."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Spark and its folder go first
    records = [record for record, _ in zip(read_flights(find_flights()), range(flights))]  # noqa: B905
    with tempfile.TemporaryDirectory(prefix="takeover-") as folder, EmbeddedKafka(chroot="/kafka") as kafka:
        spark = start_spark(master, Path(folder))
        try:
            found = hand_over_and_back(spark, kafka, Path(folder), records)
        finally:
            spark.stop()
    if found != delays_of(records):
        click.echo("error: flights were lost or counted twice", err=True)
        sys.exit(1)
    for carrier, sums in sorted(found.items(), key=lambda item: -item[1]["minutes"])[:3]:
        click.echo(f"{carrier}: {sums['flights']} flights, {sums['minutes']} minutes of delay")
    click.echo(f"each of {flights} flights was counted once")


def hand_over_and_back(
    spark: SparkSession, kafka: EmbeddedKafka, folder: Path, records: Sequence[tuple[bytes, bytes]]
) -> Delays:
    """The three steps; what the group and Spark have counted together."""
    first, rest = records[: 2 * len(records) // 3], records[2 * len(records) // 3 :]
    kafka.create_topic(TOPIC, partitions=PARTITIONS)
    produce(kafka, first)
    by_group: Delays = defaultdict(Counter)
    count = consume(kafka, by_group, at_least=len(records) // 3)
    click.echo(f"the group consumed {count} flights and stopped")
    by_spark = take_over(spark, kafka, folder)
    count = sum(each["flights"] for each in by_spark.values())
    click.echo(f"Spark took over, aggregated {count} flights and stopped")
    produce(kafka, rest)
    left = len(records) - sum(each["flights"] for each in [*by_group.values(), *by_spark.values()])
    count = consume(kafka, by_group, at_least=left)
    click.echo(f"the group went on and consumed {count} flights")
    return total(by_group, by_spark)


def produce(kafka: EmbeddedKafka, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Carriers are keys, so each has its partition."""
    produce_all(TOPIC, records, {"bootstrap.servers": kafka.bootstrap_servers})


def consume(kafka: EmbeddedKafka, delays: Delays, *, at_least: int) -> int:
    """Run a member until it has this many flights, then commit and leave; return the number of flights."""
    config = ConsumerConfig.load(
        zookeeper_connect=kafka.zookeeper_connect,
        group_id=GROUP,
        auto_offset_reset="smallest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    count = 0
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({TOPIC: 1})[TOPIC]
        for batch in stream.batches():
            for message in batch:
                add_flight(delays, message.value() or b"")
            count += len(batch)
            if count >= at_least:
                # what is in hand is done with
                consumer.commit_offsets()
                break
    return count


def take_over(spark: SparkSession, kafka: EmbeddedKafka, folder: Path) -> Delays:
    """Read with Spark from where the group stands to the end of the topic; what is in the Parquet files then."""
    from pyspark.sql import functions as f

    fields = f.split(f.col("value").cast("string"), ",")
    flights = (
        spark.readStream.format("zk_messages")
        .schema("key binary, value binary")
        .option("zookeeper.connect", kafka.zookeeper_connect)
        .option("topics", TOPIC)
        .option("group.id", GROUP)
        .option("claimOwnership", "true")
        .option("maxOffsetsPerTrigger", "20000")
        .load()
        .select(
            f.col("key").cast("string").alias("carrier"),
            fields[0].cast("bigint").alias("number"),
            fields[9].try_cast("int").alias("delay"),
        )
    )
    parquet = folder / "delays"

    def write(batch: DataFrame, number: int) -> None:
        # overwriting a folder of its own makes a batch that is repeated count once
        by_carrier = batch.groupBy("carrier").agg(
            f.count("*").alias("flights"),
            f.coalesce(f.sum("delay"), f.lit(0)).alias("minutes"),
            f.sum("number").alias("numbers"),
        )
        by_carrier.write.mode("overwrite").parquet(str(parquet / f"batch={number}"))

    query = (
        flights.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(WAIT_S):
        raise click.ClickException(f"Spark did not come to the end within {WAIT_S} s")
    left = spark.read.format("zk_offsets").options(**{"zookeeper.connect": kafka.zookeeper_connect, "groups": GROUP})
    lag = left.schema("partition int, lag bigint").load().agg(f.count("*"), f.sum("lag")).collect()[0]
    click.echo(f"the group is {lag[1]} messages behind in {lag[0]} partitions, says zk_offsets")
    rows = spark.read.parquet(str(parquet)).groupBy("carrier").sum("flights", "minutes", "numbers").collect()
    names = ("flights", "minutes", "numbers")
    return {row["carrier"]: Counter({name: row[f"sum({name})"] for name in names}) for row in rows}


def start_spark(master: str, folder: Path) -> SparkSession:
    """A quiet Spark that leaves nothing outside of the folder."""
    from pyspark.sql import SparkSession

    from spark_source import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master(master)
        .appName("takeover")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    register(spark)
    return spark


def add_flight(delays: Delays, value: bytes) -> None:
    """Count a message's value, `<number>,<line of the file>`; a flight that never arrived has no delay."""
    fields = value.split(b",", 11)
    delay = fields[9]
    minutes = int(float(delay)) if delay.lstrip(b"-")[:1].isdigit() else 0
    delays[fields[10].decode()].update(flights=1, minutes=minutes, numbers=int(fields[0]))


def delays_of(records: Iterable[tuple[bytes, bytes]]) -> Delays:
    """Return the expected result."""
    delays: Delays = defaultdict(Counter)
    for _, value in records:
        add_flight(delays, value)
    return dict(delays)


def total(*parts: Delays) -> Delays:
    """All of them together."""
    found: Delays = defaultdict(Counter)
    for part in parts:
        for carrier, sums in part.items():
            found[carrier].update(sums)
    return dict(found)


if __name__ == "__main__":
    try:
        main()
    except LegacyConsumerError as error:
        raise SystemExit(f"Error: {error}") from None
