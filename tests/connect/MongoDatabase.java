// A MongoDB of one test: PORT. It is a replica set with one member, whose collection shop.orders has
// change streams. Each line of its standard input is a command, answered with a line:
//   insert FIRST COUNT   adds so many orders, numbered from there
//   forget CODE NAME     open change streams end, and to resume one from before now is refused

import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.BsonTimestamp;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import io.netty.channel.Channel;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

public class MongoDatabase extends MemoryBackend {
    static final String DATABASE = "shop";
    static final String COLLECTION = "orders";
    static final List<String> STREAM_STARTS = List.of("resumeAfter", "startAfter");
    static final int TOKEN_DIGITS = 16;  // Of the timestamp; what follows is not compared.

    final String address;
    volatile Document refusal;
    volatile BsonTimestamp begin = new BsonTimestamp(0);
    final Set<Object> streams = ConcurrentHashMap.newKeySet();  // The cursors of change streams.
    final Set<Object> ended = ConcurrentHashMap.newKeySet();

    MongoDatabase(int port) {
        address = "127.0.0.1:" + port;
        version(ServerVersion.MONGO_5_0);
        enableOplog();
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        var backend = new MongoDatabase(port);
        var server = new MongoServer(backend);
        server.bind(new InetSocketAddress("127.0.0.1", port));
        System.out.println("ready");
        try (var lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line; (line = lines.readLine()) != null; ) {
                String[] given = line.split(" ");
                if (given[0].equals("insert")) {
                    backend.insert(Integer.parseInt(given[1]), Integer.parseInt(given[2]));
                } else {
                    backend.forget(Integer.parseInt(given[1]), given[2]);
                }
                System.out.println("done");
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    void insert(int first, int count) {
        List<Document> orders = new ArrayList<>();
        for (int number = first; number < first + count; number++) {
            orders.add(new Document("_id", number).append("state", "new"));
        }
        var insert = new Document("insert", COLLECTION).append("documents", orders);
        handleCommand(new EmbeddedChannel(), DATABASE, "insert", insert);
    }

    void forget(int code, String name) {
        begin = next();
        ended.addAll(streams);
        refusal = new Document("ok", 0.0).append("code", code).append("codeName", name)
            .append("errmsg", "the resume point may no longer be in the oplog")
            .append("errorLabels", List.of("NonResumableChangeStreamError"));
    }

    /** The time of the next event, if it comes within this second. */
    BsonTimestamp next() {
        long last = resolveDatabase("local").resolveCollection(OPLOG_COLLECTION_NAME, false)
            .queryAllAsStream().mapToLong(each -> ((BsonTimestamp) each.get("ts")).getValue())
            .max().orElseGet(() -> new BsonTimestamp(Instant.now(), 0).getValue());
        return new BsonTimestamp(last + 1);
    }

    @Override
    public Document handleMessage(MongoMessage message) {
        Document answer = super.handleMessage(message);
        name(answer);
        return answer.append("operationTime", next());
    }

    @Override
    public Document handleCommand(Channel client, String database, String command, Document query) {
        return switch (command.toLowerCase()) {
            case "hello", "ismaster" -> super.handleCommand(client, "admin", "ismaster", query)
                .append("isWritablePrimary", true).append("setName", "rs0").append("me", address)
                .append("hosts", List.of(address)).append("primary", address)
                .append("maxWireVersion", 13);
            case "buildinfo" -> super.handleCommand(client, "admin", command, query);
            case "aggregate" -> aggregate(client, database, query);
            case "getmore" -> ended.contains(query.get(command))
                ? new Document("ok", 0.0).append("code", 43).append("codeName", "CursorNotFound")
                : super.handleCommand(client, database, command, query);
            default -> super.handleCommand(client, database, command, query);
        };
    }

    @SuppressWarnings("unchecked")
    Document aggregate(Channel client, String database, Document query) {
        var stages = (List<Document>) query.get("pipeline");
        if (!stages.isEmpty() && stages.get(0).get("$changeStream") instanceof Document stream) {
            if (refusal != null && before(stream)) return refusal.clone();
            // The server cannot evaluate the other stages, which leave out what no test writes.
            query.put("pipeline", List.of(stages.get(0)));
            Document answer = super.handleCommand(client, database, "aggregate", query);
            if (answer.get("cursor") instanceof Document cursor) streams.add(cursor.get("id"));
            return answer;
        }
        return super.handleCommand(client, database, "aggregate", query);
    }

    boolean before(Document stream) {
        for (String each : STREAM_STARTS) {
            if (stream.get(each) instanceof Document token) {
                String time = ((String) token.get("_data")).substring(0, TOKEN_DIGITS);
                return Long.parseUnsignedLong(time, 16) < begin.getValue();
            }
        }
        return stream.get("startAtOperationTime") instanceof BsonTimestamp at
            && at.compareTo(begin) < 0;
    }

    /** Adds to events what the server leaves out: the collection that they are of. */
    @SuppressWarnings("unchecked")
    static void name(Document answer) {
        if (!(answer.get("cursor") instanceof Document cursor)) return;
        for (String batch : List.of("firstBatch", "nextBatch")) {
            if (!(cursor.get(batch) instanceof List<?> events)) continue;
            for (Document event : (List<Document>) events) {
                if (event.containsKey("operationType")) {
                    event.putIfAbsent("ns", new Document("db", DATABASE).append("coll", COLLECTION));
                }
            }
        }
    }
}
