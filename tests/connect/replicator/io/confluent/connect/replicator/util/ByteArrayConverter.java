package io.confluent.connect.replicator.util;

/** Under Replicator's name; Kafka's own does the same. */
public class ByteArrayConverter
    extends org.apache.kafka.connect.converters.ByteArrayConverter {}
