// An application with Java clients in it: TOPIC FILE...; it knows nothing of a move. A file
// NAME.producer.properties or NAME.consumer.properties is a client. What happens to it is printed,
// a line each: monotonic nanoseconds, client, what, text. It ends with its standard input.

import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaProgram {
    static final long PACE_MS = 50;
    static final PrintStream OUT = System.out;

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);  // What Kafka logs is not what happened.
        for (int each = 1; each < words.length; each++) {
            Path file = Path.of(words[each]);
            String client = file.getFileName().toString().replaceFirst("\\.properties$", "");
            Properties settings = new Properties();
            try (var text = Files.newBufferedReader(file)) {
                settings.load(text);
            }
            boolean producer = client.endsWith(".producer");
            Thread thread = new Thread(() -> {
                try {
                    if (producer) produce(client, settings, words[0]);
                    else consume(client, settings, words[0]);
                } catch (Exception error) {
                    say(client, "fatal", name(error));
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) { }
        // What waits for a cluster that is gone would keep it from ending.
        Runtime.getRuntime().halt(0);
    }

    static void produce(String client, Properties settings, String topic) throws Exception {
        var producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        for (long number = 0;; number++) {
            String value = client + "/" + number;
            producer.send(new ProducerRecord<>(topic, value), (stored, error) -> {
                if (error == null) say(client, "acknowledged", stored.offset() + " " + value);
                else say(client, "refused", name(error));
            });
            Thread.sleep(PACE_MS);
        }
    }

    static void consume(String client, Properties settings, String topic) {
        var consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        while (true) {
            try {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    say(client, "read", record.offset() + " " + record.value());
                }
            } catch (org.apache.kafka.common.errors.RetriableException error) {
                say(client, "error", name(error));
            }
        }
    }

    static String name(Exception error) {
        return error.getClass().getSimpleName();
    }

    static synchronized void say(String client, String what, String text) {
        OUT.print(System.nanoTime() + "\t" + client + "\t" + what + "\t" + text + "\n");
        OUT.flush();
    }
}
