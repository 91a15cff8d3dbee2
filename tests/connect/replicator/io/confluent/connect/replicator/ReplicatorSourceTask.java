package io.confluent.connect.replicator;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Copies the topics of `topic.whitelist`, with provenance headers; translates no offsets. */
public class ReplicatorSourceTask extends SourceTask {
  private static final String HEADER = "__replicator_id";

  private Map settings;
  private KafkaConsumer source;
  private String sourceId;
  private String targetId;

  public String version() {
    return "stand-in";
  }

  public void start(Map settings) {
    this.settings = settings;
    if (translates()) {
      // The client's own error where nothing is set.
      ClientUtils.parseAndValidateAddresses(words("dest.kafka.bootstrap.servers"), "use_all_dns_ips");
    }
    if (marks()) {
      sourceId = clusterOf("src.kafka.");
      targetId = clusterOf("dest.kafka.");
    }
    Map client = under("src.kafka.");
    client.putAll(under("src.consumer."));
    if (!client.containsKey("group.id")) {
      client.put("group.id", settings.get("name"));
    }
    client.put("enable.auto.commit", "false");
    source = new KafkaConsumer(client, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    List mine = partitions();
    source.assign(mine);
    for (Iterator each = mine.iterator(); each.hasNext(); ) {
      TopicPartition place = (TopicPartition) each.next();
      Map kept = context.offsetStorageReader().offset(placeOf(place.topic(), place.partition()));
      if (kept != null) {
        source.seek(place, ((Number) kept.get("offset")).longValue());
      } else {
        source.seekToBeginning(Collections.singleton(place));
      }
    }
  }

  public List poll() throws InterruptedException {
    List copies = new ArrayList();
    if (source.assignment().isEmpty()) {
      Thread.sleep(200);
      return copies;
    }
    Iterator each;
    try {
      each = source.poll(Duration.ofMillis(200)).iterator();
    } catch (WakeupException stopped) {
      return copies;
    }
    while (each.hasNext()) {
      ConsumerRecord record = (ConsumerRecord) each.next();
      if (!isFromTarget(record)) {
        copies.add(copy(record));
      }
    }
    if (!copies.isEmpty() && !"false".equals(settings.get("offset.topic.commit"))) {
      source.commitSync();
    }
    return copies;
  }

  public void stop() {
    if (source != null) {
      source.wakeup();
    }
  }

  private SourceRecord copy(ConsumerRecord record) {
    ConnectHeaders headers = new ConnectHeaders();
    for (Iterator each = record.headers().iterator(); each.hasNext(); ) {
      Header header = (Header) each.next();
      headers.addBytes(header.key(), header.value());
    }
    if (marks()) {
      headers.addBytes(HEADER, origin(record.topic()));
    }
    Map next = new HashMap();
    next.put("offset", Long.valueOf(record.offset() + 1));
    return new SourceRecord(
        placeOf(record.topic(), record.partition()),
        next,
        renamed(record.topic()),
        Integer.valueOf(record.partition()),
        Schema.OPTIONAL_BYTES_SCHEMA,
        record.key(),
        Schema.OPTIONAL_BYTES_SCHEMA,
        record.value(),
        Long.valueOf(record.timestamp()),
        headers);
  }

  /** Its real layout is not documented. */
  private byte[] origin(String topic) {
    byte[] cluster = sourceId.getBytes(StandardCharsets.UTF_8);
    byte[] name = topic.getBytes(StandardCharsets.UTF_8);
    ByteBuffer value = ByteBuffer.allocate(16 + cluster.length + name.length);
    value.putInt(cluster.length).put(cluster).putInt(name.length).put(name);
    value.putLong(System.currentTimeMillis());
    return value.array();
  }

  private boolean isFromTarget(ConsumerRecord record) {
    if (!marks() || !"".equals(setting("provenance.header.filter.overrides", ""))) {
      return false;
    }
    String topic = renamed(record.topic());
    for (Iterator each = record.headers().headers(HEADER).iterator(); each.hasNext(); ) {
      byte[] value = ((Header) each.next()).value();
      byte[] start = Arrays.copyOf(value, value.length - 8);
      String text = new String(start, StandardCharsets.ISO_8859_1);
      if (text.contains(targetId) && text.endsWith("\0" + (char) topic.length() + topic)) {
        return true;
      }
    }
    return false;
  }

  private boolean translates() {
    return !"0".equals(setting("offset.translator.tasks.max", "-1"))
        || !"false".equals(setting("offset.timestamps.commit", "true"));
  }

  private boolean marks() {
    return "true".equals(settings.get("provenance.header.enable"));
  }

  private List partitions() {
    int number = Integer.parseInt(setting("stand.in.task", "0"));
    int tasks = Integer.parseInt(setting("stand.in.tasks", "1"));
    List mine = new ArrayList();
    for (Iterator each = words("topic.whitelist").iterator(); each.hasNext(); ) {
      List there = source.partitionsFor((String) each.next());
      for (int at = 0; at < there.size(); at++) {
        PartitionInfo found = (PartitionInfo) there.get(at);
        if (found.partition() % tasks == number) {
          mine.add(new TopicPartition(found.topic(), found.partition()));
        }
      }
    }
    return mine;
  }

  private String clusterOf(String prefix) {
    AdminClient admin = AdminClient.create(under(prefix));
    try {
      return (String) admin.describeCluster().clusterId().get();
    } catch (Exception failed) {
      throw new RuntimeException(failed);
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  private String renamed(String topic) {
    return setting("topic.rename.format", "${topic}").replace("${topic}", topic);
  }

  private Map under(String prefix) {
    Map found = new HashMap();
    for (Iterator each = settings.entrySet().iterator(); each.hasNext(); ) {
      Map.Entry entry = (Map.Entry) each.next();
      String name = (String) entry.getKey();
      if (name.startsWith(prefix)) {
        found.put(name.substring(prefix.length()), entry.getValue());
      }
    }
    return found;
  }

  private List words(String name) {
    String text = setting(name, "").trim();
    return text.length() == 0 ? Collections.EMPTY_LIST : Arrays.asList((Object[]) text.split(","));
  }

  private String setting(String name, String initial) {
    Object value = settings.get(name);
    return value == null ? initial : (String) value;
  }

  private static Map placeOf(String topic, int partition) {
    Map place = new HashMap();
    place.put("topic", topic);
    place.put("partition", Integer.valueOf(partition));
    return place;
  }
}
