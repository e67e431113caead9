import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import jakarta.jms.CompletionListener;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;

/** JMS 2.0, sections 4.1, 7.3 and 8: queues, browsers, listeners. */
final class QueueCases {
    private QueueCases() {
    }

    @Case("messages of one producer come in the order in which it sent them")
    static void order(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        for (int i = 0; i < 200; i++) {
            producer.send(session.createTextMessage("" + i));
        }
        MessageConsumer consumer = session.createConsumer(broker.queue());
        for (int i = 0; i < 200; i++) {
            Check.equal("" + i, Check.nextText(consumer), "the message");
        }
        Check.nothing(consumer);
    }

    @Case("a receive from an empty queue returns nothing, at once or after its time")
    static void emptyQueue(Broker broker) throws Exception {
        Session session = broker.session();
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Check.nothing(consumer);
        Check.that(consumer.receive(50) == null, "a message that nobody sent");
    }

    @Case("consumers of a queue get each message once, between them")
    static void competingConsumers(Broker broker) throws Exception {
        Set<String> got = Collections.synchronizedSet(new HashSet<>());
        CountDownLatch left = new CountDownLatch(100);
        for (int i = 0; i < 2; i++) {
            broker.session().createConsumer(broker.queue()).setMessageListener(message -> {
                Check.that(got.add(text(message)), "a message that comes twice");
                left.countDown();
            });
        }
        String[] texts = new String[100];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = "" + i;
        }
        broker.send(broker.queue(), texts);
        Check.that(left.await(Check.SECONDS, TimeUnit.SECONDS), "messages do not come");
        Check.equal(100, got.size(), "different messages");
    }

    @Case("messages that a consumer had not taken when it closed are there for others, in order")
    static void closedConsumer(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b", "c");
        Session session = broker.session();
        MessageConsumer first = session.createConsumer(broker.queue());
        Check.some(first, "a");
        first.close();
        Check.texts(session.createConsumer(broker.queue()), "b", "c");
    }

    @Case("a browser shows all messages in order and takes none")
    static void browser(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b", "c");
        Session session = broker.session();
        for (int i = 0; i < 2; i++) {
            Check.equal(List.of("a", "b", "c"), browse(session.createBrowser(broker.queue())),
                    "what is browsed");
        }
        Check.texts(session.createConsumer(broker.queue()), "a", "b", "c");
        Check.equal(List.of(), browse(session.createBrowser(broker.queue())), "what is left");
    }

    @Case("a browser with a selector shows the messages that match")
    static void browserSelector(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        for (int i = 0; i < 4; i++) {
            TextMessage message = session.createTextMessage("" + i);
            message.setIntProperty("n", i);
            producer.send(message);
        }
        QueueBrowser browser = session.createBrowser(broker.queue(), "n >= 2");
        Check.equal(List.of("2", "3"), browse(browser), "what is browsed");
    }

    @Case("a producer without a destination sends to any")
    static void anonymousProducer(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(null);
        for (String one : List.of("a", "b")) {
            producer.send(broker.queue(one), session.createTextMessage(one));
        }
        for (String one : List.of("a", "b")) {
            Check.texts(session.createConsumer(broker.queue(one)), one);
        }
    }

    @Case("an asynchronous send calls its listener when the broker has the message")
    static void asynchronousSend(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        List<String> completed = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch left = new CountDownLatch(3);
        CompletionListener listener = new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                completed.add(text(message));
                left.countDown();
            }

            @Override
            public void onException(Message message, Exception error) {
                completed.add(error.toString());
                left.countDown();
            }
        };
        for (String each : List.of("a", "b", "c")) {
            producer.send(session.createTextMessage(each), listener);
        }
        Check.that(left.await(Check.SECONDS, TimeUnit.SECONDS), "sends do not complete");
        Check.equal(List.of("a", "b", "c"), completed, "what completes");
        Check.texts(broker.session().createConsumer(broker.queue()), "a", "b", "c");
    }

    @Case("a listener gets messages in order, waiting ones and new ones")
    static void listener(Broker broker) throws Exception {
        broker.send(broker.queue(), "a", "b");
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch left = new CountDownLatch(4);
        broker.session().createConsumer(broker.queue()).setMessageListener(message -> {
            got.add(text(message));
            left.countDown();
        });
        broker.send(broker.queue(), "c", "d");
        Check.that(left.await(Check.SECONDS, TimeUnit.SECONDS), "messages do not come");
        Check.equal(List.of("a", "b", "c", "d"), got, "what the listener got");
    }

    @Case("a message whose listener throws comes again (8.7)")
    static void listenerThatThrows(Broker broker) throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch left = new CountDownLatch(2);
        broker.session().createConsumer(broker.queue()).setMessageListener(message -> {
            got.add(text(message));
            left.countDown();
            if (got.size() == 1) {
                throw new IllegalStateException("the first time");
            }
        });
        broker.send(broker.queue(), "a");
        Check.that(left.await(Check.SECONDS, TimeUnit.SECONDS), "the message does not come again");
        Check.equal(List.of("a", "a"), got, "what the listener got");
    }

    static List<String> browse(QueueBrowser browser) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Object message : Collections.list((Enumeration<?>) browser.getEnumeration())) {
            texts.add(text((Message) message));
        }
        browser.close();
        return texts;
    }

    static String text(Message message) {
        try {
            return message.getBody(String.class);
        } catch (jakarta.jms.JMSException error) {
            return error.toString();
        }
    }
}
