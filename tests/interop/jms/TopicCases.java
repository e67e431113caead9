import jakarta.jms.Connection;
import jakarta.jms.IllegalStateException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;

import java.util.HashSet;
import java.util.Set;

/** JMS 2.0, sections 4.2 and 8.3: topics and the four kinds of subscriptions. */
final class TopicCases {
    private TopicCases() {
    }

    /** Send messages with the property n = 0, 1, ... to the case's topic. */
    private static void sendNumbers(Broker broker, int count) throws Exception {
        Session session = broker.session();
        for (int i = 0; i < count; i++) {
            Message message = session.createTextMessage("" + i);
            message.setIntProperty("n", i);
            session.createProducer(broker.topic()).send(message);
        }
    }

    /** What two consumers get of four messages: all of them, each once. */
    private static void share(MessageConsumer one, MessageConsumer two) throws Exception {
        Set<String> got = new HashSet<>();
        for (MessageConsumer consumer : new MessageConsumer[] {one, two}) {
            for (Message each = consumer.receiveNoWait(); each != null;
                    each = consumer.receiveNoWait()) {
                Check.that(got.add(QueueCases.text(each)), "a message that comes twice");
            }
        }
        Check.equal(Set.of("a", "b", "c", "d"), got, "what the consumers of one subscription got");
    }

    @Case("each subscriber of a topic gets each message")
    static void topic(Broker broker) throws Exception {
        MessageConsumer one = broker.session().createConsumer(broker.topic());
        MessageConsumer two = broker.session().createConsumer(broker.topic());
        broker.send(broker.topic(), "a", "b");
        Check.texts(one, "a", "b");
        Check.texts(two, "a", "b");
    }

    @Case("a subscriber without a durable subscription misses the messages sent in its absence")
    static void nonDurable(Broker broker) throws Exception {
        broker.send(broker.topic(), "before");
        MessageConsumer consumer = broker.session().createConsumer(broker.topic());
        broker.send(broker.topic(), "during");
        Check.texts(consumer, "during");
        consumer.close();
        broker.send(broker.topic(), "between");
        Check.nothing(broker.session().createConsumer(broker.topic()));
    }

    @Case("a subscriber with a selector gets the messages that match")
    static void topicSelector(Broker broker) throws Exception {
        MessageConsumer some = broker.session().createConsumer(broker.topic(), "n > 1");
        MessageConsumer all = broker.session().createConsumer(broker.topic());
        sendNumbers(broker, 4);
        Check.texts(some, "2", "3");
        Check.texts(all, "0", "1", "2", "3");
    }

    @Case("noLocal: a subscriber does not get the messages of its own connection")
    static void noLocal(Broker broker) throws Exception {
        Connection connection = broker.client("");
        Session session = connection.createSession();
        MessageConsumer others = session.createConsumer(broker.topic(), null, true);
        MessageConsumer all = session.createConsumer(broker.topic());
        session.createProducer(broker.topic()).send(session.createTextMessage("own"));
        broker.send(broker.topic(), "other");
        Check.texts(others, "other");
        Check.texts(all, "own", "other");
    }

    @Case("messages to a topic reach all subscribers after a commit, and none after a rollback")
    static void transactedTopic(Broker broker) throws Exception {
        MessageConsumer one = broker.session().createConsumer(broker.topic());
        MessageConsumer two = broker.session().createConsumer(broker.topic());
        Session session = broker.session(Session.SESSION_TRANSACTED);
        session.createProducer(broker.topic()).send(session.createTextMessage("a"));
        session.rollback();
        session.createProducer(broker.topic()).send(session.createTextMessage("b"));
        session.commit();
        Check.texts(one, "b");
        Check.texts(two, "b");
    }

    @Case("durable: messages sent while its consumer is away are there when it is back")
    static void durable(Broker broker) throws Exception {
        for (String[] texts : new String[][] {{}, {"a", "b"}, {"c"}}) {
            broker.send(broker.topic(), texts);
            Connection connection = broker.client("");
            Session session = connection.createSession();
            Check.texts(session.createDurableConsumer(broker.topic(), "sub"), texts);
            connection.close();
        }
    }

    @Case("durable: messages that its consumer did not acknowledge come again, redelivered")
    static void durableRedelivery(Broker broker) throws Exception {
        for (int turn = 0; turn < 2; turn++) {
            Connection connection = broker.client("");
            Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableConsumer(broker.topic(), "sub");
            if (turn == 0) {
                broker.send(broker.topic(), "a");
            }
            Message message = Check.next(consumer);
            Check.equal(turn == 1, message.getJMSRedelivered(), "JMSRedelivered");
            connection.close();
        }
    }

    @Case("durable: after an unsubscribe a subscription of that name begins empty")
    static void unsubscribe(Broker broker) throws Exception {
        Connection connection = broker.client("");
        Session session = connection.createSession();
        session.createDurableConsumer(broker.topic(), "sub").close();
        broker.send(broker.topic(), "a");
        session.unsubscribe("sub");
        Check.nothing(session.createDurableConsumer(broker.topic(), "sub"));
    }

    @Case("durable: an unsubscribe of an unknown name is an InvalidDestinationException")
    static void unsubscribeUnknown(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        Check.fails(InvalidDestinationException.class, () -> session.unsubscribe("none"));
    }

    @Case("durable: an unsubscribe while it has a consumer fails, and ends nothing")
    static void unsubscribeActive(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        MessageConsumer consumer = session.createDurableConsumer(broker.topic(), "sub");
        Check.fails(JMSException.class, () -> session.unsubscribe("sub"));
        broker.send(broker.topic(), "a");
        Check.texts(consumer, "a");
    }

    @Case("durable: its selector holds while its consumer is away")
    static void durableSelector(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        session.createDurableConsumer(broker.topic(), "sub", "n > 1", false).close();
        sendNumbers(broker, 4);
        Check.texts(session.createDurableConsumer(broker.topic(), "sub", "n > 1", false),
                "2", "3");
    }

    @Case("durable: with another selector it is a new one, and begins empty")
    static void changedSelector(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        session.createDurableConsumer(broker.topic(), "sub", "n > 1", false).close();
        sendNumbers(broker, 4);
        MessageConsumer consumer =
                session.createDurableConsumer(broker.topic(), "sub", "n < 2", false);
        Check.nothing(consumer);
        sendNumbers(broker, 3);
        Check.texts(consumer, "0", "1");
    }

    @Case("durable: two connections' subscriptions of one name are two")
    static void durableOfTwo(Broker broker) throws Exception {
        Session one = broker.client("-1").createSession();
        Session two = broker.client("-2").createSession();
        one.createDurableConsumer(broker.topic(), "sub").close();
        two.createDurableConsumer(broker.topic(), "sub").close();
        broker.send(broker.topic(), "a");
        Check.texts(one.createDurableConsumer(broker.topic(), "sub"), "a");
        Check.texts(two.createDurableConsumer(broker.topic(), "sub"), "a");
    }

    @Case("durable: it has one consumer at a time, a second is refused")
    static void durableTwice(Broker broker) throws Exception {
        Connection connection = broker.client("");
        MessageConsumer first =
                connection.createSession().createDurableConsumer(broker.topic(), "sub");
        Session session = connection.createSession();
        Check.fails(JMSException.class,
                () -> session.createDurableConsumer(broker.topic(), "sub"));
        broker.send(broker.topic(), "a");
        Check.texts(first, "a");
    }

    @Case("durable: without a client id there is none")
    static void durableWithoutClientId(Broker broker) throws Exception {
        Session session = broker.session();
        Check.fails(IllegalStateException.class,
                () -> session.createDurableConsumer(broker.topic(), "sub"));
    }

    @Case("shared: the consumers of a subscription get each message once, between them")
    static void shared(Broker broker) throws Exception {
        Connection connection = broker.client("");
        MessageConsumer one =
                connection.createSession().createSharedConsumer(broker.topic(), "sub");
        MessageConsumer two =
                connection.createSession().createSharedConsumer(broker.topic(), "sub");
        MessageConsumer alone = broker.session().createConsumer(broker.topic());
        broker.send(broker.topic(), "a", "b", "c", "d");
        share(one, two);
        Check.texts(alone, "a", "b", "c", "d");
    }

    @Case("shared: without a client id connections share it")
    static void sharedByAll(Broker broker) throws Exception {
        MessageConsumer one = broker.session().createSharedConsumer(broker.topic(), broker.name);
        MessageConsumer two = broker.session().createSharedConsumer(broker.topic(), broker.name);
        broker.send(broker.topic(), "a", "b", "c", "d");
        share(one, two);
    }

    @Case("shared: it goes with its last consumer")
    static void sharedGoes(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        session.createSharedConsumer(broker.topic(), "sub").close();
        broker.send(broker.topic(), "a");
        Check.nothing(session.createSharedConsumer(broker.topic(), "sub"));
    }

    @Case("shared durable: it is kept without consumers, and shared by those who come")
    static void sharedDurable(Broker broker) throws Exception {
        Connection connection = broker.client("");
        connection.createSession().createSharedDurableConsumer(broker.topic(), "sub").close();
        broker.send(broker.topic(), "a", "b", "c", "d");
        MessageConsumer one =
                connection.createSession().createSharedDurableConsumer(broker.topic(), "sub");
        MessageConsumer two =
                connection.createSession().createSharedDurableConsumer(broker.topic(), "sub");
        share(one, two);
    }

    @Case("shared durable: without a client id it is kept and shared by connections")
    static void sharedDurableByAll(Broker broker) throws Exception {
        broker.session().createSharedDurableConsumer(broker.topic(), broker.name).close();
        broker.send(broker.topic(), "a", "b", "c", "d");
        MessageConsumer one =
                broker.session().createSharedDurableConsumer(broker.topic(), broker.name);
        MessageConsumer two =
                broker.session().createSharedDurableConsumer(broker.topic(), broker.name);
        share(one, two);
    }

    @Case("shared durable: an unsubscribe ends it")
    static void sharedUnsubscribe(Broker broker) throws Exception {
        Session session = broker.client("").createSession();
        session.createSharedDurableConsumer(broker.topic(), "sub").close();
        broker.send(broker.topic(), "a");
        session.unsubscribe("sub");
        Check.nothing(session.createSharedDurableConsumer(broker.topic(), "sub"));
    }
}
