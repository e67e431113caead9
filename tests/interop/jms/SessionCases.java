import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;

/** JMS 2.0, sections 6.2 and 6.2.10: transactions, acknowledgement, redelivery. */
final class SessionCases {
    private SessionCases() {
    }

    /** What another consumer finds in the case's queue. */
    private static void left(Broker broker, String... texts) throws Exception {
        Check.found(broker, broker.queue(), texts);
    }

    private static void redelivered(MessageConsumer consumer, String text, int count)
            throws Exception {
        Message message = Check.next(consumer);
        Check.equal(text, QueueCases.text(message), "the message");
        Check.that(message.getJMSRedelivered(), "JMSRedelivered of a later delivery");
        Check.equal(count, message.getIntProperty("JMSXDeliveryCount"), "JMSXDeliveryCount");
    }

    @Case("AUTO_ACKNOWLEDGE: a message that a receive returned is gone")
    static void autoAcknowledge(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        Session session = broker.session();
        Check.some(session.createConsumer(broker.queue()), "a");
        session.close();
        left(broker, "b");
    }

    @Case("DUPS_OK_ACKNOWLEDGE: received messages are gone when the session closes")
    static void dupsOkAcknowledge(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        Session session = broker.session(Session.DUPS_OK_ACKNOWLEDGE);
        Check.some(session.createConsumer(broker.queue()), "a", "b");
        session.close();
        left(broker);
    }

    @Case("CLIENT_ACKNOWLEDGE: one acknowledge is for all messages that the session has received")
    static void clientAcknowledge(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b", "c");
        Session session = broker.session(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.some(consumer, "a");
        Check.next(consumer).acknowledge();
        Check.some(consumer, "c");
        session.close();
        left(broker, "c");
    }

    @Case("CLIENT_ACKNOWLEDGE: recover redelivers all unacknowledged messages, in order, "
            + "with its count")
    static void recover(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        Session session = broker.session(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.some(consumer, "a", "b");
        for (int count = 2; count < 4; count++) {
            session.recover();
            redelivered(consumer, "a", count);
            redelivered(consumer, "b", count);
        }
    }

    @Case("messages that a closed session did not acknowledge come to others, redelivered")
    static void closedSession(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        Session session = broker.session(Session.CLIENT_ACKNOWLEDGE);
        Check.some(session.createConsumer(broker.queue()), "a");
        session.close();
        MessageConsumer other = broker.session().createConsumer(broker.queue());
        Message first = Check.next(other);
        Check.equal("a", QueueCases.text(first), "the message");
        Check.that(first.getJMSRedelivered(), "JMSRedelivered");
        Check.texts(other, "b");
    }

    @Case("transacted: sent messages are there at the commit, and not before")
    static void transactedSend(Broker broker) throws Exception {
        Session session = broker.session(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(broker.queue());
        producer.send(session.createTextMessage("a"));
        producer.send(session.createTextMessage("b"));
        left(broker);
        session.commit();
        left(broker, "a", "b");
    }

    @Case("transacted: messages sent before a rollback never come")
    static void rolledBackSend(Broker broker) throws Exception {
        Session session = broker.session(Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(broker.queue());
        producer.send(session.createTextMessage("a"));
        session.rollback();
        producer.send(session.createTextMessage("b"));
        session.commit();
        left(broker, "b");
    }

    @Case("transacted: received messages are gone at the commit")
    static void transactedReceive(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b", "c");
        Session session = broker.session(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.some(consumer, "a", "b");
        session.commit();
        session.close();
        left(broker, "c");
    }

    @Case("transacted: received messages come again after a rollback, in order, redelivered, "
            + "with its count")
    static void rolledBackReceive(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        Session session = broker.session(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.some(consumer, "a", "b");
        for (int count = 2; count < 4; count++) {
            session.rollback();
            redelivered(consumer, "a", count);
            redelivered(consumer, "b", count);
        }
        session.commit();
        Check.nothing(consumer);
    }

    @Case("transacted: messages from one queue to others, all or none")
    static void transactedMove(Broker broker) throws Exception {
        broker.send(broker.queue(), "a");
        Queue one = broker.queue("-one");
        Queue two = broker.queue("-two");
        Session session = broker.session(Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        for (boolean commit : new boolean[] {false, true}) {
            Message message = Check.next(consumer);
            session.createProducer(one).send(message);
            session.createProducer(two).send(message);
            if (commit) {
                session.commit();
            } else {
                session.rollback();
                Check.found(broker, one);
                Check.found(broker, two);
            }
        }
        session.close();
        left(broker);
        Check.found(broker, one, "a");
        Check.found(broker, two, "a");
    }

    @Case("transacted: a session that closes rolls back")
    static void closedTransaction(Broker broker) throws Exception {
        broker.send(broker.queue(), "a");
        Session session = broker.session(Session.SESSION_TRANSACTED);
        Check.some(session.createConsumer(broker.queue()), "a");
        session.createProducer(broker.queue()).send(session.createTextMessage("b"));
        session.close();
        left(broker, "a");
    }

    @Case("transacted: sessions of one connection commit independently")
    static void twoTransactions(Broker broker) throws Exception {
        jakarta.jms.Connection connection = broker.connection();
        Session one = connection.createSession(Session.SESSION_TRANSACTED);
        Session two = connection.createSession(Session.SESSION_TRANSACTED);
        one.createProducer(broker.queue()).send(one.createTextMessage("one"));
        two.createProducer(broker.queue()).send(two.createTextMessage("two"));
        two.commit();
        one.rollback();
        left(broker, "two");
    }

    @Case("transacted: a listener's rollback brings its message again")
    static void transactedListener(Broker broker) throws Exception {
        Session session = broker.session(Session.SESSION_TRANSACTED);
        java.util.concurrent.CountDownLatch left = new java.util.concurrent.CountDownLatch(2);
        java.util.List<Integer> counts = new java.util.ArrayList<>();
        session.createConsumer(broker.queue()).setMessageListener(message -> {
            try {
                counts.add(message.getIntProperty("JMSXDeliveryCount"));
                if (counts.size() == 1) {
                    session.rollback();
                } else {
                    session.commit();
                }
                left.countDown();
            } catch (jakarta.jms.JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        broker.send(broker.queue(), "a");
        Check.that(left.await(Check.SECONDS, java.util.concurrent.TimeUnit.SECONDS),
                "the message does not come again");
        Check.equal(java.util.List.of(1, 2), counts, "JMSXDeliveryCount");
        session.close();
        left(broker);
    }
}
