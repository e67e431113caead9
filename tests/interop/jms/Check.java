import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;

/** What a case may state. An AssertionError is a broker that does not do what JMS says. */
final class Check {
    /** How long something may take that is to come; nothing waits so long when it works. */
    static final long SECONDS = 15;

    private Check() {
    }

    interface Action {
        void run() throws Exception;
    }

    static void equal(Object expected, Object actual, String what) {
        if (!Objects.deepEquals(expected, actual)) {
            throw new AssertionError(what + ": " + actual + " where " + expected + " is expected");
        }
    }

    static void that(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    /** The next message, which is to come. */
    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(SECONDS * 1000);
        that(message != null, "no message comes");
        return message;
    }

    static String nextText(MessageConsumer consumer) throws JMSException {
        return ((TextMessage) next(consumer)).getText();
    }

    /** The texts that are to come, in this order, and nothing after them. */
    static void texts(MessageConsumer consumer, String... expected) throws JMSException {
        some(consumer, expected);
        nothing(consumer);
    }

    /** The texts that are to come next, in this order. */
    static void some(MessageConsumer consumer, String... expected) throws JMSException {
        List<String> got = new ArrayList<>();
        for (int i = 0; i < expected.length; i++) {
            Message message = consumer.receive(SECONDS * 1000);
            if (message == null) {
                break;
            }
            got.add(((TextMessage) message).getText());
        }
        equal(List.of(expected), got, "messages");
    }

    /** The broker has nothing for a consumer: the client drains its credit to know. */
    static void nothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receiveNoWait();
        if (message != null) {
            String text = message instanceof TextMessage ? ((TextMessage) message).getText() : "";
            throw new AssertionError("a message that is not expected: " + text);
        }
    }

    /** What a consumer finds that comes for these messages and then goes. */
    static void found(Broker broker, Destination destination, String... expected)
            throws JMSException {
        try (Session session = broker.session()) {
            texts(session.createConsumer(destination), expected);
        }
    }

    /**
     * A message that is to come, behind some that came before and may come again: their
     * acknowledgements may have been lost with the connection.
     */
    static void after(MessageConsumer consumer, String expected) throws JMSException {
        while (!nextText(consumer).equals(expected)) {
            // One that comes again.
        }
    }

    /** An action that is to fail with an exception of this kind, which is returned. */
    static <T extends Exception> T fails(Class<T> kind, Action action) {
        try {
            action.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return kind.cast(error);
            }
            throw new AssertionError("it fails with " + error + " where "
                    + kind.getSimpleName() + " is expected", error);
        }
        throw new AssertionError(kind.getSimpleName() + " is expected, and nothing fails");
    }
}
