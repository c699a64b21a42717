import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * A member of Kafka's Scala high-level consumer that prints what it does, one line each:
 *
 *   message TOPIC PARTITION OFFSET    as soon as next() has returned it
 *   assignment TOPIC/PARTITION=THREAD ...    computed by this member for the whole group (0.9 and later)
 *   event WORD [text]                 registered CONSUMER-ID, ready, failed, releasing, committed, closed
 *
 * Arguments: static|whitelist|blacklist SUBSCRIPTION STREAMS PROPERTY=VALUE...
 * A static subscription is TOPIC:STREAMS[,TOPIC:STREAMS...]. Commands on standard input: commit, shutdown; its end is a
 * shutdown, too, and so is SIGTERM. Runs with the jars of Kafka 0.8.2.2 to 1.1.1.
 */
public class Member {
    private static final AtomicBoolean closed = new AtomicBoolean();
    private static volatile ConsumerConnector connector;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.setProperty(pair[0], pair[1]);
        }
        connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(properties));
        Runtime.getRuntime().addShutdownHook(new Thread(Member::close));
        listenToRebalances();
        Thread joining = new Thread(() -> join(arguments[0], arguments[1], Integer.parseInt(arguments[2])), "joining");
        joining.setDaemon(true);
        joining.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null && !command.equals("shutdown"); ) {
            if (command.equals("commit")) {
                connector.commitOffsets();
                say("event committed");
            }
        }
        System.exit(0);
    }

    private static void join(String kind, String subscription, int streams) {
        try {
            List<KafkaStream<byte[], byte[]>> all = new ArrayList<>();
            if (kind.equals("static")) {
                Map<String, Integer> counts = new HashMap<>();
                for (String part : subscription.split(",")) {
                    int colon = part.lastIndexOf(':');
                    counts.put(part.substring(0, colon), Integer.valueOf(part.substring(colon + 1)));
                }
                connector.createMessageStreams(counts).values().forEach(all::addAll);
            } else if (kind.equals("whitelist")) {
                all.addAll(connector.createMessageStreamsByFilter(new Whitelist(subscription), streams));
            } else {
                all.addAll(connector.createMessageStreamsByFilter(new Blacklist(subscription), streams));
            }
            for (KafkaStream<byte[], byte[]> stream : all) {
                Thread thread = new Thread(() -> consume(stream.iterator()));
                thread.setDaemon(true);
                thread.start();
            }
            say("event ready " + consumerId());
        } catch (Throwable error) {
            say("event failed " + error);
        }
    }

    private static void consume(ConsumerIterator<byte[], byte[]> iterator) {
        try {
            while (iterator.hasNext()) {
                MessageAndMetadata<byte[], byte[]> message = iterator.next();
                say("message " + message.topic() + " " + message.partition() + " " + message.offset());
            }
        } catch (Throwable error) {
            say("event failed " + error);
        }
    }

    /** Return the consumer id. A generated one is private, but in every version the name of a thread begins with it. */
    private static String consumerId() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().endsWith("_watcher_executor")) {
                return thread.getName().substring(0, thread.getName().length() - "_watcher_executor".length());
            }
        }
        return "";
    }

    /** Set a rebalance listener, by reflection because 0.8 has none. */
    private static void listenToRebalances() throws Exception {
        Class<?> type;
        try {
            type = Class.forName("kafka.javaapi.consumer.ConsumerRebalanceListener");
        } catch (ClassNotFoundException absent) {
            return;
        }
        InvocationHandler handler = (proxy, method, arguments) -> {
            if (method.getName().equals("beforeReleasingPartitions")) {
                say("event releasing");
            } else if (method.getName().equals("beforeStartingFetchers")) {
                say("assignment" + shown((Map<?, ?>) arguments[1]));
            }
            return null;
        };
        Object listener = Proxy.newProxyInstance(Member.class.getClassLoader(), new Class<?>[] {type}, handler);
        ConsumerConnector.class.getMethod("setConsumerRebalanceListener", type).invoke(connector, listener);
    }

    private static String shown(Map<?, ?> assignment) {
        TreeMap<String, String> sorted = new TreeMap<>();
        assignment.forEach((topic, partitions) -> ((Map<?, ?>) partitions).forEach(
            (partition, thread) -> sorted.put(topic + "/" + partition, String.valueOf(thread))));
        StringBuilder text = new StringBuilder();
        sorted.forEach((partition, thread) -> text.append(' ').append(partition).append('=').append(thread));
        return text.toString();
    }

    private static void close() {
        if (closed.compareAndSet(false, true)) {
            connector.shutdown();
            say("event closed");
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
