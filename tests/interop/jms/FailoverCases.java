import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TransactionRolledBackException;

/** What a client that fails over needs of the broker that it comes back to. */
final class FailoverCases {
    private FailoverCases() {
    }

    private static Connection throughProxy(Broker broker, Proxy proxy) throws Exception {
        Connection made = broker.fresh("failover:(" + Broker.url(proxy.port())
                + ")?failover.reconnectDelay=5&failover.maxReconnectAttempts=2000");
        made.setClientID(broker.name);
        made.start();
        return made;
    }

    @Case("a client goes on to the next address where the first one is dead")
    static void failoverAtStart(Broker broker) throws Exception {
        int dead;
        try (java.net.ServerSocket socket = new java.net.ServerSocket(0)) {
            dead = socket.getLocalPort();
        }
        Connection connection = broker.fresh("failover:(" + Broker.url(dead) + ","
                + broker.url() + ")?failover.reconnectDelay=5");
        connection.start();
        Session session = connection.createSession();
        session.createProducer(broker.queue()).send(session.createTextMessage("a"));
        Check.texts(session.createConsumer(broker.queue()), "a");
    }

    @Case("after a cut the client's producer and consumer go on, with its client id")
    static void failoverGoesOn(Broker broker) throws Exception {
        Proxy proxy = broker.closing(new Proxy(broker.port));
        Session session = throughProxy(broker, proxy).createSession();
        MessageProducer producer = session.createProducer(broker.queue());
        MessageConsumer consumer = session.createConsumer(broker.queue());
        for (int i = 0; i < 4; i++) {
            if (i > 0) {
                proxy.cut();
            }
            producer.send(session.createTextMessage("" + i));
            Check.after(consumer, "" + i);
        }
    }

    @Case("messages that were not acknowledged at a cut come again")
    static void failoverRedelivers(Broker broker) throws Exception {
        broker.send(broker.queue(), "a");
        Proxy proxy = broker.closing(new Proxy(broker.port));
        Session session =
                throughProxy(broker, proxy).createSession(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.some(consumer, "a");
        proxy.cut();
        Message again = Check.next(consumer);
        Check.equal("a", QueueCases.text(again), "the message");
        again.acknowledge();
        Check.nothing(consumer);
    }

    @Case("a cut within a transaction rolls back all of it, and the client gets an error")
    static void failoverInTransaction(Broker broker) throws Exception {
        Proxy proxy = broker.closing(new Proxy(broker.port));
        Session session =
                throughProxy(broker, proxy).createSession(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(broker.queue());
        producer.send(session.createTextMessage("lost"));
        proxy.cut();
        try {
            producer.send(session.createTextMessage("lost too"));
        } catch (JMSException error) {
            // The client may tell it here already; the commit tells it in any case.
        }
        Check.fails(TransactionRolledBackException.class, session::commit);
        commitOnce(session, producer, "kept");
        Check.texts(broker.session().createConsumer(broker.queue()), "kept");
    }

    /** Send a text in a transaction, as often as the client says that it was rolled back. */
    private static void commitOnce(Session session, MessageProducer producer, String text)
            throws JMSException {
        for (boolean committed = false; !committed;) {
            try {
                producer.send(session.createTextMessage(text));
                session.commit();
                committed = true;
            } catch (TransactionRolledBackException error) {
                // The client had not come back when this transaction began.
            }
        }
    }

    @Case("a durable subscription goes on after a cut, with the messages sent meanwhile")
    static void failoverDurable(Broker broker) throws Exception {
        Proxy proxy = broker.closing(new Proxy(broker.port));
        Session session = throughProxy(broker, proxy).createSession();
        MessageConsumer consumer = session.createDurableConsumer(broker.topic(), "sub");
        broker.send(broker.topic(), "a");
        Check.some(consumer, "a");
        proxy.cut();
        broker.send(broker.topic(), "b");
        Check.after(consumer, "b");
    }
}
