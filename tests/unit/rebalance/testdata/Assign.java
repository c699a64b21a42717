import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, which answer one case a line.
 *
 * In: {"strategy": WORD, "case": CASE}, a case as `legacy-consumer assign --coordination kafka` reads it.
 * Out: {"answer": {"topic/partition": member}, "user_data": {member: hex}}; user data as a member of Java sends it.
 * If the assignor throws: "error" instead of "answer". Of two members with the same partition, the second is shown.
 */
public class Assign {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(judge(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String judge(JsonNode asked) {
        String strategy = asked.get("strategy").asText();
        JsonNode document = asked.get("case");
        Map<String, Subscription> subscriptions = new HashMap<>();
        ObjectNode out = JSON.createObjectNode();
        ObjectNode shown = out.putObject("user_data");
        for (Iterator<Map.Entry<String, JsonNode>> it = document.get("members").fields(); it.hasNext(); ) {
            Map.Entry<String, JsonNode> member = it.next();
            Subscription subscription = subscription(strategy, member.getKey(), member.getValue());
            if (subscription.userData() != null) {
                shown.put(member.getKey(), hex(subscription.userData()));
            }
            subscriptions.put(member.getKey(), subscription);
        }
        Map<String, Assignment> assigned;
        try {
            assigned = assignor(strategy)
                .assign(cluster(document.get("topics")), new GroupSubscription(subscriptions)).groupAssignment();
        } catch (RuntimeException failure) {
            return out.put("error", failure.toString()).toString();
        }
        ObjectNode answer = out.putObject("answer");
        for (Map.Entry<String, Assignment> member : new TreeMap<>(assigned).entrySet()) {
            for (TopicPartition partition : member.getValue().partitions()) {
                answer.put(partition.topic() + "/" + partition.partition(), member.getKey());
            }
        }
        return out.toString();
    }

    private static ConsumerPartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(strategy);
        }
    }

    private static Subscription subscription(String strategy, String id, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        if (member.has("owned")) {
            member.get("owned").fields().forEachRemaining(entry -> entry.getValue()
                .forEach(number -> owned.add(new TopicPartition(entry.getKey(), number.asInt()))));
        }
        ByteBuffer userData = null;
        ConsumerPartitionAssignor assignor = assignor(strategy);
        if (member.has("generation")) {
            assignor.onAssignment(new Assignment(owned),
                new ConsumerGroupMetadata("g", member.get("generation").asInt(), id, Optional.empty()));
            userData = assignor.subscriptionUserData(new HashSet<>(topics));
        } else if (strategy.equals("sticky") && !owned.isEmpty()) {
            userData = withoutGeneration(owned);
        }
        boolean tells = strategy.equals("cooperative-sticky");
        Subscription subscription = new Subscription(topics, userData, tells ? owned : Collections.emptyList());
        if (member.has("instance_id")) {
            subscription.setGroupInstanceId(Optional.of(member.get("instance_id").asText()));
        }
        return subscription;
    }

    /** Encode the first version of the sticky assignor's user data, which consumers before 2.3 send. */
    private static ByteBuffer withoutGeneration(List<TopicPartition> owned) {
        Map<String, List<Integer>> byTopic = new LinkedHashMap<>();
        owned.forEach(one -> byTopic.computeIfAbsent(one.topic(), key -> new ArrayList<>()).add(one.partition()));
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        buffer.putInt(byTopic.size());
        byTopic.forEach((topic, numbers) -> {
            byte[] name = topic.getBytes(StandardCharsets.UTF_8);
            buffer.putShort((short) name.length).put(name).putInt(numbers.size());
            numbers.forEach(buffer::putInt);
        });
        buffer.flip();
        return buffer;
    }

    private static Cluster cluster(JsonNode topics) {
        Node node = new Node(0, "broker", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                partitions.add(new PartitionInfo(topic.getKey(), number, node, nodes, nodes));
            }
        });
        return new Cluster("c", List.of(node), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder text = new StringBuilder();
        for (int at = buffer.position(); at < buffer.limit(); at++) {
            text.append(String.format("%02x", buffer.get(at)));
        }
        return text.toString();
    }
}
