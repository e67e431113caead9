import java.io.IOException;
import java.util.HexFormat;

import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.DocumentContext;

/**
 * The real Chronicle Queue, for tests: one operation on one directory.
 *
 * <pre>
 * read DIR...               entries from the first to the last, a line "index hex" each;
 *                           a line "end" after each queue
 * tail DIR COUNT            the same, live, until there were COUNT
 * seek DIR INDEX...         the entry at each index, or "index none"
 * append DIR COUNT          COUNT entries of binary wire; a line "index" each
 * hold DIR                  "held" in the middle of an append, until a line comes
 * </pre>
 */
public final class QueuePeer {
    private static final long TAIL_MILLISECONDS = 60_000;

    private QueuePeer() {
    }

    public static void main(String[] arguments) throws IOException {
        String directory = arguments[1];
        switch (arguments[0]) {
            case "read" -> readAll(arguments);
            case "tail" -> tail(directory, Integer.parseInt(arguments[2]));
            case "seek" -> seek(directory, arguments);
            case "append" -> append(directory, Integer.parseInt(arguments[2]));
            case "hold" -> hold(directory);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.out.flush();
    }

    private static ChronicleQueue readOnly(String directory) {
        return SingleChronicleQueueBuilder.single(directory).readOnly(true).build();
    }

    private static boolean printNext(ExcerptTailer tailer) {
        try (DocumentContext context = tailer.readingDocument()) {
            if (!context.isPresent()) {
                return false;
            }
            byte[] content = context.wire().bytes().toByteArray();
            System.out.println(context.index() + " " + HexFormat.of().formatHex(content));
            return true;
        }
    }

    private static void readAll(String[] arguments) {
        for (int i = 1; i < arguments.length; i++) {
            read(arguments[i]);
            System.out.println("end");
        }
    }

    private static void read(String directory) {
        try (ChronicleQueue queue = readOnly(directory); ExcerptTailer tailer = queue.createTailer()) {
            while (printNext(tailer)) {
                continue;
            }
        }
    }

    private static void tail(String directory, int count) {
        long deadline = System.currentTimeMillis() + TAIL_MILLISECONDS;
        try (ChronicleQueue queue = readOnly(directory); ExcerptTailer tailer = queue.createTailer()) {
            System.out.println("ready");
            System.out.flush();
            int seen = 0;
            while (seen < count && System.currentTimeMillis() < deadline) {
                if (printNext(tailer)) {
                    seen++;
                }
            }
        }
    }

    private static void seek(String directory, String[] arguments) {
        try (ChronicleQueue queue = readOnly(directory); ExcerptTailer tailer = queue.createTailer()) {
            for (int i = 2; i < arguments.length; i++) {
                if (!tailer.moveToIndex(Long.parseLong(arguments[i])) || !printNext(tailer)) {
                    System.out.println(arguments[i] + " none");
                }
            }
        }
    }

    private static void append(String directory, int count) {
        try (ChronicleQueue queue = SingleChronicleQueueBuilder.single(directory).build();
             ExcerptAppender appender = queue.createAppender()) {
            for (int i = 0; i < count; i++) {
                int number = i;
                appender.writeDocument(wire -> wire.write("number").int32(number));
                System.out.println(appender.lastIndexAppended());
            }
        }
    }

    private static void hold(String directory) throws IOException {
        try (ChronicleQueue queue = SingleChronicleQueueBuilder.single(directory).build();
             ExcerptAppender appender = queue.createAppender();
             DocumentContext context = appender.writingDocument()) {
            context.wire().write("held").text("so long");
            System.out.println("held");
            System.out.flush();
            System.in.read();
        }
    }
}
