// What MirrorMaker 2's connectors take where a setting is missing: `CLASS KEY VALUE` lines. Which
// topics and groups pass is asked of filters, which read the same configuration.

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Connector;

public class Defaults {
    static final String MIRROR = "org.apache.kafka.connect.mirror.";

    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            Class<?> kind = Class.forName(MIRROR + name);
            print(name, ((Connector) kind.getDeclaredConstructor().newInstance()).config());
            print(name, filter("DefaultTopicFilter$TopicFilterConfig"));
            print(name, filter("DefaultGroupFilter$GroupFilterConfig"));
        }
        var worker = Class.forName("org.apache.kafka.connect.runtime.WorkerConfig");
        var settings = worker.getDeclaredMethod("baseConfigDef");
        settings.setAccessible(true);
        print("worker", (ConfigDef) settings.invoke(null));
    }

    static ConfigDef filter(String name) throws Exception {
        var definition = Class.forName(MIRROR + name).getDeclaredField("DEF");
        definition.setAccessible(true);
        return (ConfigDef) definition.get(null);
    }

    static void print(String name, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            if (key.hasDefault()) {
                String value = ConfigDef.convertToString(key.defaultValue, key.type);
                System.out.println(name + "\t" + key.name + "\t" + (value == null ? "" : value));
            }
        }
    }
}
