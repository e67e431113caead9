import jakarta.jms.InvalidSelectorException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;

/** JMS 2.0, section 3.8: selectors. */
final class SelectorCases {
    private SelectorCases() {
    }

    /** Send messages with properties: name, value, name, value. */
    private static void send(Broker broker, Session session, String text, Object... pairs)
            throws Exception {
        TextMessage message = session.createTextMessage(text);
        for (int i = 0; i < pairs.length; i += 2) {
            message.setObjectProperty((String) pairs[i], pairs[i + 1]);
        }
        session.createProducer(broker.queue()).send(message);
    }

    @Case("a consumer gets the messages that match, and leaves the rest to others in order")
    static void selector(Broker broker) throws Exception {
        Session session = broker.session();
        for (int i = 0; i < 6; i++) {
            send(broker, session, "" + i, "color", i % 2 == 0 ? "red" : "blue");
        }
        Check.texts(session.createConsumer(broker.queue(), "color = 'blue'"), "1", "3", "5");
        Check.texts(session.createConsumer(broker.queue()), "0", "2", "4");
    }

    @Case("the operators of SQL: AND, OR, NOT, BETWEEN, IN, LIKE with ESCAPE, IS NULL, arithmetic")
    static void operators(Broker broker) throws Exception {
        Session session = broker.session();
        send(broker, session, "a", "n", 1, "s", "one_x");
        send(broker, session, "b", "n", 5, "s", "five");
        send(broker, session, "c", "n", 9L, "d", 0.5);
        String[][] cases = {
            {"n BETWEEN 2 AND 9 AND NOT (n = 5)", "c"},
            {"s LIKE 'one!_%' ESCAPE '!'", "a"},
            {"s IN ('five', 'six') OR d < 1", "b", "c"},
            {"s IS NULL", "c"},
            {"d IS NOT NULL AND n * 2 - 8 > 4 + 5.5", "c"},
            {"n <> 1 AND s <> 'x'", "b"},
        };
        for (String[] each : cases) {
            try (MessageConsumer consumer = broker.session(Session.CLIENT_ACKNOWLEDGE)
                    .createConsumer(broker.queue(), each[0])) {
                Check.texts(consumer, java.util.Arrays.copyOfRange(each, 1, each.length));
            }
            // What it did not acknowledge goes back when its session does.
            broker.close();
        }
    }

    @Case("NOT applies to all of a comparison, as in SQL")
    static void negation(Broker broker) throws Exception {
        Session session = broker.session();
        send(broker, session, "a", "n", 1);
        send(broker, session, "b", "n", 5);
        Message got = session.createConsumer(broker.queue(), "NOT n = 5").receiveNoWait();
        Check.equal("a", got == null ? null : QueueCases.text(got), "the message");
    }

    @Case("header fields in a selector: JMSPriority, JMSType, JMSCorrelationID, JMSDeliveryMode")
    static void selectedHeaders(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        Message message = session.createTextMessage("a");
        message.setJMSType("kind");
        message.setJMSCorrelationID("with");
        producer.send(message, jakarta.jms.DeliveryMode.NON_PERSISTENT, 7, 0);
        for (String each : new String[] {
            "JMSPriority = 8", "JMSType = 'other'", "JMSCorrelationID IS NULL",
            "JMSDeliveryMode = 'PERSISTENT'",
        }) {
            try (MessageConsumer consumer = session.createConsumer(broker.queue(), each)) {
                Check.nothing(consumer);
            }
        }
        Check.texts(session.createConsumer(broker.queue(), "JMSPriority > 6 AND JMSType = 'kind'"
                + " AND JMSCorrelationID = 'with' AND JMSDeliveryMode = 'NON_PERSISTENT'"), "a");
    }

    @Case("JMSMessageID in a selector finds the message")
    static void selectedIdentity(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        Message one = session.createTextMessage("one");
        Message two = session.createTextMessage("two");
        producer.send(one);
        producer.send(two);
        Check.texts(session.createConsumer(
                broker.queue(), "JMSMessageID = '" + two.getJMSMessageID() + "'"), "two");
    }

    @Case("a property that is not there, or of another type, is unknown and matches nothing")
    static void unknownValues(Broker broker) throws Exception {
        Session session = broker.session();
        send(broker, session, "a", "s", "1");
        for (String each : new String[] {"none = 1", "NOT (none = 1)", "s = 1", "none <> 'x'"}) {
            try (MessageConsumer consumer = session.createConsumer(broker.queue(), each)) {
                Check.nothing(consumer);
            }
        }
        Check.texts(session.createConsumer(broker.queue(), "none = 1 OR s = '1'"), "a");
    }

    @Case("a selector that cannot be read is an InvalidSelectorException")
    static void invalidSelector(Broker broker) throws Exception {
        Session session = broker.session();
        Check.fails(InvalidSelectorException.class,
                () -> session.createConsumer(broker.queue(), "color = = 'blue'"));
    }

    @Case("a message that a rollback returns goes to the consumer whose selector it matches")
    static void selectorAfterRollback(Broker broker) throws Exception {
        Session session = broker.session(Session.SESSION_TRANSACTED);
        send(broker, session, "a", "n", 1);
        send(broker, session, "b", "n", 2);
        session.commit();
        MessageConsumer two = session.createConsumer(broker.queue(), "n = 2");
        Check.some(two, "b");
        session.rollback();
        Check.texts(two, "b");
    }
}
