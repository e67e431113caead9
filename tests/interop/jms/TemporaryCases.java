import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;

/** JMS 2.0, sections 6.2.2 and 6.2.3: temporary destinations, request and reply. */
final class TemporaryCases {
    private TemporaryCases() {
    }

    @Case("a temporary queue takes messages of others")
    static void temporaryQueue(Broker broker) throws Exception {
        Session session = broker.session();
        TemporaryQueue queue = session.createTemporaryQueue();
        broker.send(queue, "a", "b");
        Check.texts(session.createConsumer(queue), "a", "b");
    }

    @Case("each subscriber of a temporary topic gets each message")
    static void temporaryTopic(Broker broker) throws Exception {
        Session session = broker.session();
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer one = session.createConsumer(topic);
        MessageConsumer two = session.createConsumer(topic);
        broker.send(topic, "a", "b");
        Check.texts(one, "a", "b");
        Check.texts(two, "a", "b");
    }

    @Case("two temporary queues are two")
    static void temporaryQueues(Broker broker) throws Exception {
        Session session = broker.session();
        TemporaryQueue one = session.createTemporaryQueue();
        TemporaryQueue two = session.createTemporaryQueue();
        broker.send(one, "a");
        Check.nothing(session.createConsumer(two));
        Check.texts(session.createConsumer(one), "a");
    }

    @Case("a deleted temporary queue takes nothing more")
    static void deletedTemporaryQueue(Broker broker) throws Exception {
        Session session = broker.session();
        TemporaryQueue queue = session.createTemporaryQueue();
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("a"));
        queue.delete();
        Check.fails(JMSException.class, () -> producer.send(session.createTextMessage("b")));
    }

    @Case("a temporary queue goes with its connection, and its messages with it")
    static void goneTemporaryQueue(Broker broker) throws Exception {
        Connection connection = broker.connection();
        TemporaryQueue queue = connection.createSession().createTemporaryQueue();
        broker.send(queue, "a");
        connection.close();
        Session session = broker.session();
        try {
            Check.nothing(session.createConsumer(session.createQueue(queue.getQueueName())));
        } catch (InvalidDestinationException error) {
            // There is no such queue any more: so much the better.
        }
    }

    @Case("a request is answered to its JMSReplyTo, with its id as the correlation id")
    static void requestReply(Broker broker) throws Exception {
        Session server = broker.session();
        server.createConsumer(broker.queue()).setMessageListener(request -> {
            try {
                Message reply = server.createTextMessage("re: " + QueueCases.text(request));
                reply.setJMSCorrelationID(request.getJMSMessageID());
                server.createProducer(request.getJMSReplyTo()).send(reply);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        Session session = broker.session();
        Destination replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(broker.queue());
        for (int i = 0; i < 5; i++) {
            Message request = session.createTextMessage("" + i);
            request.setJMSReplyTo(replies);
            producer.send(request);
            Message reply = Check.next(consumer);
            Check.equal("re: " + i, QueueCases.text(reply), "the reply");
            Check.equal(request.getJMSMessageID(), reply.getJMSCorrelationID(), "its id");
        }
    }

    @Case("a reply by a producer without a destination reaches a temporary queue")
    static void anonymousReply(Broker broker) throws Exception {
        Session session = broker.session();
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        Session other = broker.session();
        other.createProducer(null).send(replies, other.createTextMessage("a"));
        Check.texts(consumer, "a");
    }
}
