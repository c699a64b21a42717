import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs Kafka's command line tools one after another in one JVM: a run takes a tenth of a second, not a whole one.
 *
 * A line on standard input is a class and its arguments, separated by tabs; what the tool prints is followed by the
 * line "-- done" or "-- failed ERROR".
 */
public class Tools {
    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split("\t");
            String outcome = "-- done";
            try {
                Class.forName(words[0]).getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException error) {
                outcome = "-- failed " + error.getCause();
            }
            System.out.flush();
            System.out.println(outcome);
            System.out.flush();
        }
    }
}
