import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Produces with Kafka's own client of any version: BOOTSTRAP COUNT (TOPIC CODEC)...
 *
 * Message n has the key "kN", or null if n is divisible by 5, and the value "vN vN ... vN", as often as n modulo 40
 * says, or null if n is divisible by 7. It sends them without a pause, so batches become large.
 */
public class Produce {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        for (int at = 2; at < arguments.length; at += 2) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            settings.put("compression.type", arguments[at + 1]);
            settings.put("linger.ms", "50");
            settings.put("acks", "all");
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
            java.util.concurrent.Future<RecordMetadata> last = null;
            for (int n = 0; n < count; n++) {
                StringBuilder value = new StringBuilder();
                for (int i = 0; i < n % 40; i++) {
                    value.append("v").append(n).append(" ");
                }
                byte[] key = n % 5 == 0 ? null : ("k" + n).getBytes();
                last = producer.send(
                    new ProducerRecord<>(arguments[at], 0, key, n % 7 == 0 ? null : value.toString().getBytes()));
            }
            long offset = last.get().offset();
            producer.close();
            if (offset != count - 1) {
                throw new IllegalStateException(arguments[at] + ": the last offset is " + offset);
            }
        }
    }
}
