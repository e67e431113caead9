import java.io.IOException;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.HexFormat;

import net.openhft.chronicle.core.time.SetTimeProvider;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.RollCycle;
import net.openhft.chronicle.queue.RollCycles;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.queue.rollcycles.LegacyRollCycles;
import net.openhft.chronicle.wire.DocumentContext;
import net.openhft.chronicle.wire.WireType;

/**
 * The real Chronicle Queue, for tests: one operation on one directory.
 *
 * <pre>
 * read DIR...               entries from the first to the last, a line "index hex" each;
 *                           a line "end" after each queue
 * tail DIR COUNT            the same, live, until there were COUNT
 * seek DIR INDEX...         the entry at each index, or "index none"
 * append DIR COUNT          COUNT entries of binary wire; a line "index" each
 * make DIR COUNT STEP SETTING=VALUE...
 *                           COUNT entries, STEP milliseconds apart, up to now, in a queue with
 *                           wireType, epoch, rollTime (UTC) or rollCycle; a named tailer reads the
 *                           first one; a line "index" each
 * named DIR                 what that tailer has not read yet, as read does
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
            case "make" -> make(arguments);
            case "named" -> named(directory);
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

    private static void make(String[] arguments) {
        SingleChronicleQueueBuilder builder = SingleChronicleQueueBuilder.single(arguments[1]);
        for (int i = 4; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            switch (pair[0]) {
                case "wireType" -> builder.wireType(WireType.valueOf(pair[1]));
                case "epoch" -> builder.epoch(Long.parseLong(pair[1]));
                case "rollTime" -> builder.rollTime(LocalTime.parse(pair[1]), ZoneOffset.UTC);
                case "rollCycle" -> builder.rollCycle(rollCycle(pair[1]));
                default -> throw new IllegalArgumentException(pair[0]);
            }
        }
        int count = Integer.parseInt(arguments[2]);
        long step = Long.parseLong(arguments[3]);
        SetTimeProvider clock = new SetTimeProvider();
        clock.currentTimeMillis(System.currentTimeMillis() - (count - 1) * step);
        try (ChronicleQueue queue = builder.timeProvider(clock).build();
             ExcerptAppender appender = queue.createAppender();
             ExcerptTailer tailer = queue.createTailer("mine")) {
            for (int i = 0; i < count; i++) {
                int number = i;
                appender.writeDocument(wire -> wire.write("number").int32(number));
                System.out.println(appender.lastIndexAppended());
                clock.advanceMillis(step);
            }
            try (DocumentContext first = tailer.readingDocument()) {
                if (!first.isPresent()) {
                    throw new IllegalStateException("no first entry");
                }
            }
        }
    }

    private static RollCycle rollCycle(String name) {
        return name.equals("DAILY") ? LegacyRollCycles.DAILY : RollCycles.valueOf(name);
    }

    private static void named(String directory) {
        try (ChronicleQueue queue = SingleChronicleQueueBuilder.single(directory).build();
             ExcerptTailer tailer = queue.createTailer("mine")) {
            while (printNext(tailer)) {
                continue;
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
