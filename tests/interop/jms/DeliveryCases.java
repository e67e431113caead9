import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;

/** JMS 2.0, sections 3.4.9, 3.4.10, 7.8 to 7.10: time to live, priority, delay. */
final class DeliveryCases {
    private DeliveryCases() {
    }

    /** Let a time pass by the clock that both ends read. */
    private static void until(long milliseconds) throws InterruptedException {
        while (System.currentTimeMillis() <= milliseconds) {
            Thread.sleep(5);
        }
    }

    @Case("an expired message does not come, the next one does")
    static void timeToLive(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        Message expiring = session.createTextMessage("expiring");
        producer.send(expiring, 1, 4, 50);
        producer.send(session.createTextMessage("staying"));
        until(expiring.getJMSExpiration() + 50);
        Check.texts(session.createConsumer(broker.queue()), "staying");
    }

    @Case("a message that has not expired comes, with its expiry time")
    static void expiration(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        Message sent = session.createTextMessage("a");
        producer.setTimeToLive(3_600_000);
        producer.send(sent);
        MessageConsumer consumer = session.createConsumer(broker.queue());
        Message got = Check.next(consumer);
        Check.equal(sent.getJMSExpiration(), got.getJMSExpiration(), "JMSExpiration");
        producer.setTimeToLive(0);
        producer.send(sent);
        got = Check.next(consumer);
        Check.equal(0L, got.getJMSExpiration(), "JMSExpiration of what lives for ever");
    }

    @Case("the priority comes as it was sent")
    static void priority(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        MessageConsumer consumer = session.createConsumer(broker.queue());
        for (int priority = 0; priority < 10; priority++) {
            producer.setPriority(priority);
            producer.send(session.createTextMessage("a"));
            Check.equal(priority, Check.next(consumer).getJMSPriority(), "JMSPriority");
        }
    }

    @Case("messages of a higher priority come first, those of one priority in order (3.4.10)")
    static void priorityOrder(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        int[] priorities = {4, 0, 9, 4, 9, 1};
        for (int i = 0; i < priorities.length; i++) {
            producer.send(session.createTextMessage("" + i), 1, priorities[i], 0);
        }
        Check.texts(session.createConsumer(broker.queue()),
                "2", "4", "0", "3", "5", "1");
    }

    @Case("a message with a delivery delay comes after the delay, and not before (7.9)")
    static void deliveryDelay(Broker broker) throws Exception {
        Session session = broker.session();
        MessageProducer producer = session.createProducer(broker.queue());
        MessageConsumer consumer = session.createConsumer(broker.queue());
        producer.setDeliveryDelay(300);
        Message sent = session.createTextMessage("late");
        producer.send(sent);
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("now"));
        for (int i = 0; i < 2; i++) {
            if (Check.nextText(consumer).equals("late")) {
                Check.that(System.currentTimeMillis() >= sent.getJMSDeliveryTime(),
                        "it comes too early");
            }
        }
    }
}
