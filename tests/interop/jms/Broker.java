import java.util.ArrayList;
import java.util.List;

import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;

import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsQueue;
import org.apache.qpid.jms.JmsTopic;

/** The broker under test, with the connections and the addresses that are one case's own. */
final class Broker implements AutoCloseable {
    /**
     * Sends wait for the broker, so what a case sent is there for whom it asks next; and the
     * client leaves it to the broker to drop what has expired.
     */
    static final String OPTIONS = "jms.forceSyncSend=true&jms.localMessageExpiry=false";

    final int port;
    final String name;
    private final List<AutoCloseable> open = new ArrayList<>();

    Broker(int port, String name) {
        this.port = port;
        this.name = name;
    }

    String url() {
        return url(port);
    }

    static String url(int port) {
        return "amqp://127.0.0.1:" + port + "?" + OPTIONS;
    }

    /** What is closed with the case. */
    <T extends AutoCloseable> T closing(T made) {
        open.add(made);
        return made;
    }

    /** A connection that is not started and has no client id yet. */
    Connection fresh(String url) throws JMSException {
        return closing(new JmsConnectionFactory(url).createConnection());
    }

    Connection connection() throws JMSException {
        Connection made = fresh(url());
        made.start();
        return made;
    }

    /** A connection whose client id is the case's own, with a suffix. */
    Connection client(String suffix) throws JMSException {
        Connection made = fresh(url());
        made.setClientID(name + suffix);
        made.start();
        return made;
    }

    Session session() throws JMSException {
        return session(Session.AUTO_ACKNOWLEDGE);
    }

    /** A session of a connection of its own. */
    Session session(int mode) throws JMSException {
        return connection().createSession(mode);
    }

    JMSContext context() {
        return closing(new JmsConnectionFactory(url()).createContext());
    }

    Queue queue() {
        return queue("");
    }

    Queue queue(String suffix) {
        return new JmsQueue(name + suffix);
    }

    Topic topic() {
        return new JmsTopic("topic-" + name);
    }

    /** Send texts over a connection of its own, which is closed when the broker has them. */
    void send(Destination destination, String... texts) throws JMSException {
        try (Connection connection = new JmsConnectionFactory(url()).createConnection()) {
            Session session = connection.createSession();
            MessageProducer producer = session.createProducer(destination);
            for (String text : texts) {
                producer.send(session.createTextMessage(text));
            }
        }
    }

    /**
     * Close in reverse: a connection before the proxy that it goes through, since a client that
     * is cut off while it closes waits for the answer.
     */
    @Override
    public void close() throws Exception {
        for (int i = open.size() - 1; i >= 0; i--) {
            open.get(i).close();
        }
    }
}
