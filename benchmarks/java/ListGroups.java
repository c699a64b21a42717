import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;

/** Kafka's consumer-groups --list, several times in one JVM: ListGroups ZOOKEEPER. Prints the lines of one call and the
 *  median of the seconds that a call took, the first one left out. */
public class ListGroups {
    private static final int CALLS = 6;

    public static void main(String[] args) throws Exception {
        PrintStream terminal = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        // before Scala's Console is loaded, which keeps what it finds
        System.setOut(new PrintStream(printed, true));
        double[] seconds = new double[CALLS];
        for (int call = 0; call < CALLS; call++) {
            printed.reset();
            long began = System.nanoTime();
            kafka.admin.ConsumerGroupCommand.main(new String[] {"--zookeeper", args[0], "--list"});
            seconds[call] = (System.nanoTime() - began) / 1e9;
        }
        double[] later = Arrays.copyOfRange(seconds, 1, CALLS);
        Arrays.sort(later);
        long lines = printed.toString("UTF-8").lines().filter(line -> !line.isBlank()).count();
        terminal.printf("%d %.6f%n", lines, later[later.length / 2]);
        System.exit(0);
    }
}
