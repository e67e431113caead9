import org.HdrHistogram.Histogram;
import java.nio.file.*;

/** Prints the percentile distribution of "value count" lines (ns) in ms, as our --hgrm does. */
public class Hgrm {
    public static void main(String[] args) throws Exception {
        Histogram h = new Histogram(1, 24L * 3600 * 1000000000L, 3);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] f = line.split(" ");
            h.recordValueWithCount(Long.parseLong(f[0]), Long.parseLong(f[1]));
        }
        h.outputPercentileDistribution(System.out, 5, 1e6);
    }
}
