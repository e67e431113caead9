import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import jakarta.jms.Connection;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;

/** JMS 2.0, section 6.1 and the simplified API: connections, client ids, contexts. */
final class ConnectionCases {
    private ConnectionCases() {
    }

    @Case("a client id that is in use is an InvalidClientIDException")
    static void clientIdInUse(Broker broker) throws Exception {
        broker.client("");
        Check.fails(InvalidClientIDException.class,
                () -> broker.client(""));
    }

    @Case("a client id is free again when its connection has closed")
    static void clientIdAgain(Broker broker) throws Exception {
        for (int i = 0; i < 3; i++) {
            Connection connection = broker.client("");
            connection.createSession();
            connection.close();
        }
    }

    @Case("a stopped connection delivers nothing, and delivers the waiting messages once started")
    static void stoppedConnection(Broker broker) throws Exception {
        Connection connection = broker.connection();
        Session session = connection.createSession();
        MessageConsumer consumer = session.createConsumer(broker.queue());
        connection.stop();
        broker.send(broker.queue(), "a", "b");
        Check.nothing(consumer);
        connection.start();
        Check.texts(consumer, "a", "b");
    }

    @Case("the simplified API sends and receives bodies")
    static void simplifiedApi(Broker broker) throws Exception {
        JMSContext context = broker.context();
        context.createProducer().setProperty("n", 1).send(broker.queue(), "text");
        context.createProducer().send(broker.queue(), new byte[] {1, 2});
        JMSConsumer consumer = context.createConsumer(broker.queue());
        Check.equal("text", consumer.receiveBody(String.class, Check.SECONDS * 1000), "a body");
        Check.equal(new byte[] {1, 2}, consumer.receiveBody(byte[].class, Check.SECONDS * 1000),
                "a body");
    }

    @Case("a context's transaction commits and rolls back")
    static void transactedContext(Broker broker) throws Exception {
        JMSContext context = broker.closing(broker.context().createContext(
                JMSContext.SESSION_TRANSACTED));
        context.createProducer().send(broker.queue(), "a");
        context.rollback();
        context.createProducer().send(broker.queue(), "b");
        context.commit();
        Check.texts(broker.session().createConsumer(broker.queue()), "b");
    }

    @Case("many sessions of a connection have listeners at once")
    static void manySessions(Broker broker) throws Exception {
        Connection connection = broker.connection();
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch left = new CountDownLatch(20);
        for (int i = 0; i < 20; i++) {
            connection.createSession().createConsumer(broker.queue("-" + i))
                    .setMessageListener(message -> {
                        got.add(QueueCases.text(message));
                        left.countDown();
                    });
        }
        for (int i = 0; i < 20; i++) {
            broker.send(broker.queue("-" + i), "" + i);
        }
        Check.that(left.await(Check.SECONDS, TimeUnit.SECONDS), "messages do not come");
        Check.equal(20, got.size(), "messages");
    }

    @Case("another connection sees a message when its send has returned")
    static void sentBefore(Broker broker) throws Exception {
        Session sending = broker.session();
        MessageConsumer consumer = broker.session().createConsumer(broker.queue());
        for (int i = 0; i < 20; i++) {
            sending.createProducer(broker.queue()).send(sending.createTextMessage("" + i));
            Check.texts(consumer, "" + i);
        }
    }
}
