// What Kafka's own classes write and read: lines of JSON on stdin, lines of JSON on stdout.
//
// In: {"name": CLASS, "version": N, "fields": {...}} to write it, or with "hex" instead of "fields" to
// read it. Out: all four, where "hex" is what the class itself writes. Of MirrorMaker 2's classes it
// is key and value, with a space between; of the others what stands in __consumer_offsets.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;

public class Vectors {
    static final String GENERATED = "org.apache.kafka.coordinator.group.generated.";
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            String name = given.get("name").asText();
            short version = (short) given.get("version").asInt();
            ObjectNode found = JSON.createObjectNode().put("name", name).put("version", version);
            switch (name) {
                case "OffsetSync", "Checkpoint", "Heartbeat" -> mirrored(name, given, found);
                default -> coordinated(name, version, given, found);
            }
            out.println(JSON.writeValueAsString(found));
        }
    }

    static void coordinated(String name, short version, ObjectNode given, ObjectNode found) throws Exception {
        Class<?> type = Class.forName(GENERATED + name);
        Class<?> converter = Class.forName(GENERATED + name + "JsonConverter");
        ApiMessage message;
        if (given.has("hex")) {
            var bytes = ByteBuffer.wrap(HEX.parseHex(given.get("hex").asText()));
            bytes.getShort();
            var accessor = new ByteBufferAccessor(bytes);
            message = (ApiMessage) type.getConstructor(Readable.class, short.class).newInstance(accessor, version);
            if (bytes.hasRemaining()) {
                throw new IllegalStateException(bytes.remaining() + " bytes too many: " + given);
            }
        } else {
            JsonNode fields = given.get("fields");
            for (JsonNode member : fields.path("members")) {
                toBinary((ObjectNode) member, "subscription");
                toBinary((ObjectNode) member, "assignment");
            }
            message = (ApiMessage) converter.getMethod("read", JsonNode.class, short.class).invoke(null, fields, version);
        }
        // The number in front: of keys that of their type, of values that of their version.
        byte[] written = name.endsWith("Key")
            ? MessageUtil.toCoordinatorTypePrefixedBytes(message)
            : MessageUtil.toVersionPrefixedBytes(version, message);
        found.set("fields", (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version));
        found.put("hex", HEX.formatHex(written));
    }

    static void toBinary(ObjectNode member, String field) {
        member.put(field, Base64.getDecoder().decode(member.get(field).asText()));
    }

    static void mirrored(String name, ObjectNode given, ObjectNode found) throws Exception {
        Object value = given.has("hex") ? read(name, given.get("hex").asText().split(" ", 2)) : made(name, given.get("fields"));
        ObjectNode fields = found.putObject("fields");
        if (value instanceof OffsetSync sync) {
            place(fields, sync.topicPartition());
            fields.put("upstreamOffset", sync.upstreamOffset()).put("offset", sync.downstreamOffset());
        } else if (value instanceof Checkpoint checkpoint) {
            fields.put("group", checkpoint.consumerGroupId());
            place(fields, checkpoint.topicPartition());
            fields.put("upstreamOffset", checkpoint.upstreamOffset()).put("offset", checkpoint.downstreamOffset());
            fields.put("metadata", checkpoint.metadata());
        } else if (value instanceof Heartbeat heartbeat) {
            fields.put("sourceClusterAlias", heartbeat.sourceClusterAlias());
            fields.put("targetClusterAlias", heartbeat.targetClusterAlias()).put("timestamp", heartbeat.timestamp());
        }
        found.put("hex", HEX.formatHex(bytes(value, "recordKey")) + " " + HEX.formatHex(bytes(value, "recordValue")));
    }

    static Object made(String name, JsonNode fields) {
        if (name.equals("Heartbeat")) {
            return new Heartbeat(text(fields, "sourceClusterAlias"), text(fields, "targetClusterAlias"), number(fields, "timestamp"));
        }
        var partition = new TopicPartition(text(fields, "topic"), (int) number(fields, "partition"));
        long upstream = number(fields, "upstreamOffset");
        long downstream = number(fields, "offset");
        return name.equals("OffsetSync")
            ? new OffsetSync(partition, upstream, downstream)
            : new Checkpoint(text(fields, "group"), partition, upstream, downstream, text(fields, "metadata"));
    }

    static Object read(String name, String[] hex) {
        var record = new ConsumerRecord<>("t", 0, 0, HEX.parseHex(hex[0]), HEX.parseHex(hex[1]));
        return switch (name) {
            case "OffsetSync" -> OffsetSync.deserializeRecord(record);
            case "Checkpoint" -> Checkpoint.deserializeRecord(record);
            default -> Heartbeat.deserializeRecord(record);
        };
    }

    static byte[] bytes(Object value, String method) throws Exception {
        Method found = value.getClass().getDeclaredMethod(method);
        found.setAccessible(true);
        return (byte[]) found.invoke(value);
    }

    static void place(ObjectNode fields, TopicPartition partition) {
        fields.put("topic", partition.topic()).put("partition", partition.partition());
    }

    static String text(JsonNode fields, String name) {
        return fields.get(name).asText();
    }

    static long number(JsonNode fields, String name) {
        return fields.get(name).asLong();
    }
}
