import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import jakarta.jms.JMSException;
import jakarta.jms.JMSRuntimeException;

/**
 * What JMS 2.0 asks of a broker, through Qpid JMS: one case after the other, and a line of
 * JSON for each.
 *
 * <pre>
 * JmsSuite PORT [CASE...]
 * {"case": "...", "gives": "yes" | "refused" | "no" | "late", "says": "..."}
 * </pre>
 *
 * "refused": the client was told that the broker does not have it. "no": what JMS says does
 * not come true. "late": the case does not end.
 */
public final class JmsSuite {
    private static final Class<?>[] CASES = {
        MessageCases.class, QueueCases.class, SessionCases.class, SelectorCases.class,
        TopicCases.class, TemporaryCases.class, DeliveryCases.class, ConnectionCases.class,
        FailoverCases.class,
    };
    /** What tells the addresses and client ids of this run from those of another one. */
    private static final String RUN = "-" + ProcessHandle.current().pid();
    private static final long CASE_SECONDS = 30;

    private JmsSuite() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        int port = Integer.parseInt(arguments[0]);
        for (Class<?> cases : CASES) {
            for (Method method : cases.getDeclaredMethods()) {
                if (method.isAnnotationPresent(Case.class) && isAsked(arguments, method)) {
                    out.println(line(port, method));
                }
            }
        }
        // What a case that does not end still holds is not waited for.
        System.exit(0);
    }

    private static boolean isAsked(String[] arguments, Method method) {
        boolean asked = arguments.length == 1;
        for (int i = 1; i < arguments.length; i++) {
            asked |= arguments[i].equals(method.getName());
        }
        return asked;
    }

    private static String line(int port, Method method) throws InterruptedException {
        String gives = "yes";
        String says = "";
        ExecutorService executor = Executors.newSingleThreadExecutor();
        Future<?> end = executor.submit(() -> run(port, method));
        try {
            end.get(CASE_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            gives = "late";
            says = "it does not end";
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            boolean told = cause instanceof JMSException || cause instanceof JMSRuntimeException;
            gives = told ? "refused" : "no";
            says = cause instanceof AssertionError || told ? cause.getMessage() : cause.toString();
        }
        executor.shutdownNow();
        return "{\"case\": " + quoted(method.getName()) + ", \"gives\": " + quoted(gives)
                + ", \"says\": " + quoted(says) + "}";
    }

    private static Void run(int port, Method method) throws Exception {
        try (Broker broker = new Broker(port, method.getName() + RUN)) {
            method.invoke(null, broker);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception) {
                throw (Exception) error.getCause();
            }
            throw (Error) error.getCause();
        }
        return null;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : String.valueOf(text).toCharArray()) {
            if (each == '"' || each == '\\') {
                quoted.append('\\').append(each);
            } else if (each < ' ') {
                quoted.append(' ');
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }
}
