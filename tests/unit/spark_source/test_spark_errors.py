import pytest

from spark_source.reasons import reason_of

AT_PLANNING = """[PYTHON_DATA_SOURCE_ERROR] Failed to create instance: Traceback (most recent call last):
  File "source.py", line 43, in schema
    raise ConfigError(key)
zk_layout.errors.ConfigError: grops: no such option of zk_offsets, did you mean groups?
 SQLSTATE: 38000"""

WITH_CAUSE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "socket.py", line 1, in connect
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "batch.py", line 1, in read
zk_layout.errors.ConnectTimeoutError: no ZooKeeper answered at h:1 within 1500 ms: check zookeeper.connect
"""

AFTER_RETRIES = """Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: Lost task 0.3
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] Thrown: Traceback (most recent call last):
  File "batch.py", line 1, in read
zk_layout.errors.ConnectionLostError: connection lost
 SQLSTATE: 38000
\tat org.apache.spark.Thing(Thing.scala:1)

Driver stacktrace:
java.lang.IllegalStateException: of the driver"""

NOT_FOUND = """An error occurred while calling o72.save.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: zk_offsets. Make
sure the provider name is correct and the package is properly registered and compatible with your Spark version.
SQLSTATE: 42K02"""

WORKER_DIED = """Traceback (most recent call last):
  File "app.py", line 1, in write
    batch.collect()
py4j.protocol.Py4JJavaError: An error occurred while calling o76.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times: Python worker exited \
unexpectedly
\tat org.apache.spark.Thing(Thing.scala:1)

Driver stacktrace:
java.lang.IllegalStateException: of the driver"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NOT_FOUND, "Spark does not find zk_offsets: call spark_source.register with this session, in this thread"),
        (
            NOT_FOUND.replace("zk_offsets", "avro"),
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: avro. Make",
        ),
        (WORKER_DIED, "Job aborted due to stage failure: Task 0 failed 4 times: Python worker exited unexpectedly"),
        (AT_PLANNING, "grops: no such option of zk_offsets, did you mean groups?"),
        (WITH_CAUSE, "no ZooKeeper answered at h:1 within 1500 ms: check zookeeper.connect"),
        (AFTER_RETRIES, "connection lost"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "[JAVA_GATEWAY_EXITED] Java gateway process exited"),
        ("", "ValueError('')"),
    ],
)
def test_the_line_with_the_error_is_found_in_sparks_text(text, reason):
    assert reason_of(ValueError(text)) == reason
