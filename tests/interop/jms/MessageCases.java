import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;

import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;

/** JMS 2.0, chapter 3: messages come as they were sent. */
final class MessageCases {
    private MessageCases() {
    }

    /** Send a message through the case's queue and return what comes. */
    private static Message through(Broker broker, Session session, Message message)
            throws Exception {
        session.createProducer(broker.queue()).send(message);
        try (MessageConsumer consumer = session.createConsumer(broker.queue())) {
            return Check.next(consumer);
        }
    }

    @Case("text of any characters, empty, and null")
    static void textMessage(Broker broker) throws Exception {
        Session session = broker.session();
        for (String text : Arrays.asList("plain", "", null, "\u00e4\u20ac\ud83d\ude00")) {
            Message got = through(broker, session, session.createTextMessage(text));
            Check.equal(text, ((TextMessage) got).getText(), "the text");
        }
    }

    @Case("bytes, read as the types that were written")
    static void bytesMessage(Broker broker) throws Exception {
        Session session = broker.session();
        BytesMessage sent = session.createBytesMessage();
        sent.writeLong(-7);
        sent.writeUTF("x");
        sent.writeBytes(new byte[] {0, -1, 127});
        BytesMessage got = (BytesMessage) through(broker, session, sent);
        Check.equal(-7L, got.readLong(), "the long");
        Check.equal("x", got.readUTF(), "the string");
        byte[] rest = new byte[4];
        Check.equal(3, got.readBytes(rest), "bytes that are left");
        Check.equal(new byte[] {0, -1, 127, 0}, rest, "the bytes");
    }

    @Case("a map with values of all types")
    static void mapMessage(Broker broker) throws Exception {
        Session session = broker.session();
        MapMessage sent = session.createMapMessage();
        sent.setBoolean("boolean", true);
        sent.setByte("byte", (byte) -3);
        sent.setShort("short", (short) 300);
        sent.setChar("char", '\u20ac');
        sent.setInt("int", 1 << 20);
        sent.setLong("long", 1L << 40);
        sent.setFloat("float", 1.5f);
        sent.setDouble("double", 0.1);
        sent.setString("string", "s");
        sent.setBytes("bytes", new byte[] {1, 2});
        MapMessage got = (MapMessage) through(broker, session, sent);
        for (Enumeration<?> names = sent.getMapNames(); names.hasMoreElements();) {
            String name = (String) names.nextElement();
            Check.equal(sent.getObject(name), got.getObject(name), name);
        }
        Check.equal(1L << 40, got.getLong("long"), "the long");
    }

    @Case("a stream with values of several types, in order")
    static void streamMessage(Broker broker) throws Exception {
        Session session = broker.session();
        StreamMessage sent = session.createStreamMessage();
        sent.writeBoolean(false);
        sent.writeInt(5);
        sent.writeDouble(2.25);
        sent.writeString("s");
        StreamMessage got = (StreamMessage) through(broker, session, sent);
        Check.equal(false, got.readBoolean(), "the boolean");
        Check.equal(5, got.readInt(), "the int");
        Check.equal(2.25, got.readDouble(), "the double");
        Check.equal("s", got.readString(), "the string");
    }

    @Case("a serialized object")
    static void objectMessage(Broker broker) throws Exception {
        Session session = broker.session();
        ArrayList<String> object = new ArrayList<>(List.of("a", "b"));
        Message got = through(broker, session, session.createObjectMessage(object));
        Check.equal(object, ((ObjectMessage) got).getObject(), "the object");
    }

    @Case("a message without a body")
    static void emptyMessage(Broker broker) throws Exception {
        Session session = broker.session();
        Message sent = session.createMessage();
        sent.setStringProperty("only", "this");
        Message got = through(broker, session, sent);
        Check.equal("this", got.getStringProperty("only"), "the property");
    }

    @Case("properties of all types")
    static void properties(Broker broker) throws Exception {
        Session session = broker.session();
        Message sent = session.createTextMessage();
        List<Object> values = List.of(
                true, (byte) 1, (short) 2, 3, 4L, 5.5f, 6.5, "seven");
        for (int i = 0; i < values.size(); i++) {
            sent.setObjectProperty("p" + i, values.get(i));
        }
        Message got = through(broker, session, sent);
        for (int i = 0; i < values.size(); i++) {
            Check.equal(values.get(i), got.getObjectProperty("p" + i), "p" + i);
        }
        Check.that(!got.propertyExists("p9"), "a property that was not set");
    }

    @Case("header fields: type, correlation id as text and as bytes, reply-to, destination")
    static void headers(Broker broker) throws Exception {
        Session session = broker.session();
        Message sent = session.createTextMessage();
        sent.setJMSType("kind");
        sent.setJMSCorrelationID("with:this");
        sent.setJMSReplyTo(broker.topic());
        Message got = through(broker, session, sent);
        Check.equal("kind", got.getJMSType(), "JMSType");
        Check.equal("with:this", got.getJMSCorrelationID(), "JMSCorrelationID");
        Check.equal(broker.topic(), got.getJMSReplyTo(), "JMSReplyTo");
        Check.equal(broker.queue(), got.getJMSDestination(), "JMSDestination");
        Check.that(!got.getJMSRedelivered(), "JMSRedelivered of a first delivery");
        Check.equal(1, got.getIntProperty("JMSXDeliveryCount"), "JMSXDeliveryCount");
        sent.setJMSCorrelationIDAsBytes(new byte[] {9, 0});
        got = through(broker, session, sent);
        Check.equal(new byte[] {9, 0}, got.getJMSCorrelationIDAsBytes(), "the bytes");
    }

    @Case("the message id and the time that the producer's send gave it")
    static void identity(Broker broker) throws Exception {
        Session session = broker.session();
        Message sent = session.createTextMessage();
        Message got = through(broker, session, sent);
        Check.that(got.getJMSMessageID().startsWith("ID:"), "an id that begins with ID:");
        Check.equal(sent.getJMSMessageID(), got.getJMSMessageID(), "JMSMessageID");
        Check.equal(sent.getJMSTimestamp(), got.getJMSTimestamp(), "JMSTimestamp");
    }

    @Case("the delivery mode, persistent and not")
    static void deliveryMode(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        MessageConsumer consumer = session.createConsumer(broker.queue());
        for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
            producer.setDeliveryMode(mode);
            producer.send(session.createMessage());
            Check.equal(mode, Check.next(consumer).getJMSDeliveryMode(), "JMSDeliveryMode");
        }
    }

    @Case("a message of 2 MB")
    static void largeMessage(Broker broker) throws Exception {
        Session session = broker.session();
        byte[] bytes = new byte[2_000_000];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 31);
        }
        BytesMessage sent = session.createBytesMessage();
        sent.writeBytes(bytes);
        BytesMessage got = (BytesMessage) through(broker, session, sent);
        byte[] back = new byte[bytes.length];
        Check.equal(bytes.length, got.readBytes(back), "the length");
        Check.equal(bytes, back, "the bytes");
    }
}
