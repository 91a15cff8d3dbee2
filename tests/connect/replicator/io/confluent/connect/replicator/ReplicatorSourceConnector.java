package io.confluent.connect.replicator;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * A stand-in for Confluent Replicator, with its name and its documented settings and defaults.
 *
 * <p>Written for a compiler without lambdas and without type arguments, which needs no JDK.
 */
public class ReplicatorSourceConnector extends SourceConnector {
  private Map settings;

  public void start(Map settings) {
    this.settings = settings;
  }

  public Class taskClass() {
    return ReplicatorSourceTask.class;
  }

  public List taskConfigs(int most) {
    List configs = new ArrayList();
    for (int number = 0; number < most; number++) {
      Map each = new HashMap(settings);
      each.put("stand.in.task", String.valueOf(number));
      each.put("stand.in.tasks", String.valueOf(most));
      configs.add(each);
    }
    return configs;
  }

  public void stop() {}

  public String version() {
    return "stand-in";
  }

  public ConfigDef config() {
    ConfigDef known = new ConfigDef();
    define(known, "src.kafka.bootstrap.servers", Type.LIST, ConfigDef.NO_DEFAULT_VALUE);
    define(known, "dest.kafka.bootstrap.servers", Type.LIST, "");
    define(known, "src.consumer.group.id", Type.STRING, null);
    define(known, "topic.whitelist", Type.LIST, "");
    define(known, "topic.regex", Type.STRING, null);
    define(known, "topic.blacklist", Type.LIST, "");
    define(known, "topic.rename.format", Type.STRING, "${topic}");
    define(known, "topic.timestamp.type", Type.STRING, "CreateTime");
    define(known, "offset.start", Type.STRING, "connect");
    define(known, "offset.topic.commit", Type.BOOLEAN, "true");
    define(known, "offset.timestamps.commit", Type.BOOLEAN, "true");
    define(known, "offset.translator.tasks.max", Type.INT, "-1");
    define(known, "offset.translator.tasks.separate", Type.BOOLEAN, "false");
    define(known, "offset.translator.batch.period.ms", Type.LONG, "60000");
    define(known, "offset.translator.batch.size", Type.INT, "1");
    define(known, "fetch.offset.expiry.ms", Type.LONG, "600000");
    define(known, "fetch.offset.retry.backoff.ms", Type.LONG, "100");
    define(known, "provenance.header.enable", Type.BOOLEAN, "false");
    define(known, "provenance.header.filter.overrides", Type.STRING, "");
    return known;
  }

  private static void define(ConfigDef known, String name, Type type, Object initial) {
    known.define(name, type, initial, Importance.HIGH, name);
  }
}
