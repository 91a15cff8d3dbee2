// What Java's clients take where a setting is missing: `KEY VALUE` lines.

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

public class ClientDefaults {
    public static void main(String[] words) {
        print(ConsumerConfig.configDef());
        print(ProducerConfig.configDef());
    }

    static void print(ConfigDef definition) {
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            if (key.hasDefault() && key.defaultValue != null) {
                String value = ConfigDef.convertToString(key.defaultValue, key.type);
                System.out.println(key.name + "\t" + value);
            }
        }
    }
}
