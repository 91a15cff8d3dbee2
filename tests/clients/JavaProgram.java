// An application with Java clients in it: TOPIC FILE...; it knows nothing of a move. A file
// NAME.producer.properties or NAME.consumer.properties is a client. What happens to it is printed,
// a line each: monotonic nanoseconds, client, what, text. It ends with its standard input.

import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaProgram {
    static final long PACE_MS = 50, TRANSACTION = 5;
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
                boolean again = settings.containsKey("application.restarts");
                do {
                    try {
                        if (settings.containsKey("transactional.id")) {
                            transact(client, settings, words[0]);
                        } else if (producer) produce(client, settings, words[0]);
                        else consume(client, settings, words[0]);
                    } catch (Exception error) {
                        say(client, again ? "restarted" : "fatal", name(error));
                    }
                } while (again);
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

    // As Kafka's documentation has it: abort what can be aborted; else a new producer takes over.
    // Records are acknowledged once their transaction is committed, and written again until then.
    static void transact(String client, Properties settings, String topic) throws Exception {
        for (long number = 0;;) {
            var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                producer.initTransactions();
                while (true) {
                    if (committed(producer, client, topic, number)) number += TRANSACTION;
                    Thread.sleep(PACE_MS * TRANSACTION);
                }
            } catch (KafkaException error) {
                say(client, "restarted", name(error));
            } finally {
                producer.close(Duration.ofSeconds(5));
            }
            Thread.sleep(PACE_MS * TRANSACTION);
        }
    }

    static boolean committed(
            KafkaProducer<String, String> producer, String client, String topic, long number)
            throws Exception {
        var sent = new ArrayList<Future<RecordMetadata>>();
        producer.beginTransaction();
        try {
            for (long each = number; each < number + TRANSACTION; each++) {
                sent.add(producer.send(new ProducerRecord<>(topic, client + "/" + each)));
            }
            producer.commitTransaction();
        } catch (ProducerFencedException | TimeoutException error) {
            throw error;  // A commit that timed out may have happened: it cannot be aborted.
        } catch (KafkaException error) {
            say(client, "refused", name(error));
            producer.abortTransaction();
            return false;
        }
        for (var stored : sent) {
            say(client, "acknowledged", stored.get().offset() + " " + client + "/" + number++);
        }
        return true;
    }

    static void consume(String client, Properties settings, String topic) throws Exception {
        try (var consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                try {
                    for (var record : consumer.poll(Duration.ofSeconds(1))) {
                        say(client, "read", record.offset() + " " + record.value());
                    }
                } catch (RetriableException | AuthorizationException error) {
                    say(client, "error", name(error));
                    Thread.sleep(PACE_MS);  // A fenced topic is refused with every poll.
                }
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
