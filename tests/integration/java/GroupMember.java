import java.util.Collection;
import java.util.Collections;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of Kafka's Java consumer that prints its actions, one a line: "assigned 0 2", "message PARTITION OFFSET".
 * Arguments: TOPIC PROPERTY=VALUE... The end of standard input closes it. Runs with the clients of Kafka 1.1.1 and newer.
 */
public class GroupMember {
    private static volatile boolean ends;

    @SuppressWarnings("deprecation")
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.setProperty(pair[0], pair[1]);
        }
        Thread watching = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException closed) {
                // an error counts as the end of the input
            }
            ends = true;
        });
        watching.setDaemon(true);
        watching.start();
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(Collections.singletonList(arguments[0]), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                say("revoked");
            }

            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                StringBuilder line = new StringBuilder("assigned");
                TreeSet<Integer> numbers = new TreeSet<>();
                partitions.forEach(partition -> numbers.add(partition.partition()));
                numbers.forEach(number -> line.append(' ').append(number));
                say(line.toString());
            }
        });
        while (!ends) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(100L);
            for (ConsumerRecord<byte[], byte[]> record : records) {
                say("message " + record.partition() + " " + record.offset());
            }
            if (!records.isEmpty()) {
                try {
                    consumer.commitSync();
                } catch (CommitFailedException rebalanced) {
                    say("commit failed");
                }
            }
        }
        consumer.close();
        say("closed");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
