import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;

/**
 * Members of a group of Kafka's Scala consumer in this JVM, one or many, that come and go as lines on standard input say.
 *
 * Arguments: ZOOKEEPER TOPIC PARTITIONS FIRST, the number of the first member. Each line is answered by one that begins with "ok" or "error":
 *   group NAME     members that join from now on join this group
 *   join N         N members join at the same time, each with one stream that a thread reads; their ids are m-FIRST, ...
 *   leave N        the N that joined last leave at the same time
 *   commit TIMES   the first member commits an offset for every partition so many times, each time others; "ok SECONDS"
 * The end of the input ends the process. programs/members.py is the same for our consumer.
 */
public final class Members {
    private static final List<ConsumerConnector> members = new ArrayList<>();
    private static final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });
    private static String zookeeper;
    private static String topic;
    private static int partitions;
    private static int first;
    private static String group;
    private static long nextOffset = 1;

    public static void main(String[] arguments) throws Exception {
        zookeeper = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        first = Integer.parseInt(arguments[3]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ok");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println(("ok " + obey(words[0], words[1])).trim());
            } catch (Exception error) {
                System.out.println("error " + error);
            }
        }
        System.exit(0);
    }

    private static String obey(String verb, String object) throws Exception {
        switch (verb) {
            case "group":
                group = object;
                return "";
            case "join":
                join(Integer.parseInt(object));
                return "";
            case "leave":
                leave(Integer.parseInt(object));
                return "";
            case "commit":
                return Double.toString(commit(Integer.parseInt(object)));
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static void join(int count) throws Exception {
        List<Callable<ConsumerConnector>> tasks = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String id = String.format("m-%03d", first + members.size() + i);
            tasks.add(() -> newMember(id));
        }
        for (Future<ConsumerConnector> joined : threads.invokeAll(tasks)) {
            members.add(joined.get());
        }
    }

    private static ConsumerConnector newMember(String id) {
        Properties properties = new Properties();
        properties.put("zookeeper.connect", zookeeper);
        properties.put("group.id", group);
        properties.put("consumer.id", id);
        properties.put("auto.offset.reset", "smallest");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        KafkaStream<byte[], byte[]> stream = connector.createMessageStreams(Map.of(topic, 1)).get(topic).get(0);
        threads.submit(() -> stream.iterator().forEachRemaining(message -> { }));
        return connector;
    }

    private static void leave(int count) throws Exception {
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            ConsumerConnector member = members.remove(members.size() - 1);
            tasks.add(() -> {
                member.shutdown();
                return null;
            });
        }
        for (Future<Void> left : threads.invokeAll(tasks)) {
            left.get();
        }
    }

    private static double commit(int times) {
        long nanos = 0;
        for (int i = 0; i < times; i++) {
            Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (int partition = 0; partition < partitions; partition++) {
                offsets.put(new TopicAndPartition(topic, partition), OffsetAndMetadata.apply(nextOffset));
            }
            nextOffset++;
            long began = System.nanoTime();
            members.get(0).commitOffsets(offsets, true);
            nanos += System.nanoTime() - began;
        }
        return nanos / 1e9;
    }
}
