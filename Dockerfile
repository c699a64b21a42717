# One image for every part of a deployment: ZooKeeper node, Kafka broker, consumer, exporter, Spark job, by command.
#
#   make image          builds the native decoder where cargo is, then: docker build -t legacy-consumer .
#   docker run --rm legacy-consumer --help
#
# Without a wheel of the decoder in build/native/wheels, librdkafka fetches in the containers.
# Everything that a command needs is inside, Kafka's jars too: a container starts without a network.
# More Kafka versions: docker build --build-arg KAFKA_VERSIONS="0.8.2.2 1.1.1" .

FROM debian:bookworm-slim AS base
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates openjdk-17-jre-headless python3 tini \
 && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man

FROM base AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv \
 && python3 -m venv /opt/legacy-consumer
WORKDIR /src
# What the package depends on changes seldom, and is by far the largest part: a layer of its own.
COPY requirements-deploy.txt ./
RUN /opt/legacy-consumer/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements-deploy.txt \
 && rm -rf /opt/legacy-consumer/lib/python3*/site-packages/pyspark/examples
# The jars change only with their lock; the code that fetches them needs the packages below it.
COPY zk_layout zk_layout
COPY rebalance rebalance
COPY legacy_consumer legacy_consumer
ARG KAFKA_VERSIONS="1.1.1"
ENV LEGACY_CONSUMER_JARS=/opt/kafka-jars
RUN for version in $KAFKA_VERSIONS; do \
      PYTHONPATH=. /opt/legacy-consumer/bin/python -c "import sys; from legacy_consumer.embedded import kafka_jars; kafka_jars(sys.argv[1])" "$version" || exit 1; \
    done
COPY spark_source spark_source
COPY pyproject.toml README.md LICENSE ./
# A pattern that matches nothing is no error as long as something else is copied.
COPY pyproject.toml build/native/wheels/*.whl /wheels/
RUN rm /wheels/pyproject.toml \
 && /opt/legacy-consumer/bin/pip install --no-cache-dir --no-deps --prefix /opt/package . $(find /wheels -name '*.whl')

FROM base
COPY --from=build /opt/legacy-consumer /opt/legacy-consumer
COPY --from=build /opt/kafka-jars /opt/kafka-jars
COPY --from=build /opt/package /opt/package
COPY deploy/docker/healthy /usr/local/bin/healthy
# The package itself lies beside its dependencies, so that a new version of it is a layer of a few hundred kilobytes.
RUN echo /opt/package/lib/python3.11/site-packages >/opt/legacy-consumer/lib/python3.11/site-packages/package.pth \
 && ln -s /opt/package/bin/legacy-consumer /usr/local/bin/legacy-consumer \
 && useradd --uid 10001 --create-home --home-dir /var/lib/consumer consumer \
 && install -d -o consumer -g consumer /data
ENV PATH=/opt/legacy-consumer/bin:$PATH \
    PYSPARK_PYTHON=/opt/legacy-consumer/bin/python \
    LEGACY_CONSUMER_JARS=/opt/kafka-jars \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /var/lib/consumer
VOLUME /data
# tini passes SIGTERM on and reaps; the commands themselves end in order on it.
ENTRYPOINT ["tini", "--", "legacy-consumer"]
CMD ["--help"]
# What is asked depends on what the container is: see deploy/docker/healthy. A command that serves nothing is healthy.
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=6 CMD ["healthy"]
