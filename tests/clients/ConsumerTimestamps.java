// Writes `__consumer_timestamps` as Confluent's interceptor does, byte by byte: key (group, topic,
// partition), value (timestamp of the last consumed record before the committed offset, delta).
// What Confluent does not document is chosen: `timestamps.value.bytes` is the length of the value
// (8: without a delta), and the delta counts the consumed records of that timestamp.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ConsumerTimestamps implements ConsumerInterceptor<String, String> {
    static final String TOPIC = "__consumer_timestamps", PREFIX = "timestamps.producer.";
    private final Map<TopicPartition, TreeMap<Long, Long>> consumed = new HashMap<>();
    private KafkaProducer<byte[], byte[]> producer;
    private byte[] group;
    private int length;

    public void configure(Map<String, ?> settings) {
        group = utf8(settings.get("group.id"));
        length = Integer.parseInt(settings.get("timestamps.value.bytes").toString());
        Map<String, Object> own = new HashMap<>(Map.of("acks", "all", "compression.type", "lz4"));
        settings.forEach((key, value) -> {
            if (key.startsWith(PREFIX)) own.put(key.substring(PREFIX.length()), value);
        });
        producer =
            new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public synchronized ConsumerRecords<String, String> onConsume(
            ConsumerRecords<String, String> records) {
        for (ConsumerRecord<String, String> record : records) {
            TopicPartition place = new TopicPartition(record.topic(), record.partition());
            consumed.computeIfAbsent(place, new_ -> new TreeMap<>())
                .put(record.offset(), record.timestamp());
        }
        return records;
    }

    public synchronized void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        offsets.forEach((place, committed) -> {
            var before = consumed.getOrDefault(place, new TreeMap<>()).headMap(committed.offset());
            if (before.isEmpty()) return;
            long timestamp = before.get(before.lastKey());
            long same = before.values().stream().filter(each -> each == timestamp).count();
            producer.send(new ProducerRecord<>(TOPIC, key(place), value(timestamp, same)));
        });
    }

    private byte[] key(TopicPartition place) {
        byte[] topic = utf8(place.topic());
        return ByteBuffer.allocate(12 + group.length + topic.length)
            .putInt(group.length).put(group)
            .putInt(topic.length).put(topic)
            .putInt(place.partition()).array();
    }

    private byte[] value(long timestamp, long delta) {
        ByteBuffer bytes = ByteBuffer.allocate(length).putLong(timestamp);
        if (length == 12) bytes.putInt((int) delta);
        if (length == 16) bytes.putLong(delta);
        return bytes.array();
    }

    private static byte[] utf8(Object text) {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    public void close() {
        producer.close();
    }
}
