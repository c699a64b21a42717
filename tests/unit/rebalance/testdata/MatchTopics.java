import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** In: regex in hex UTF-8, a tab, topics separated by blanks. Out: 1 or 0 for each topic, "invalid" or "broken". */
class MatchTopics {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            var cut = line.indexOf('\t');
            var regex = new String(HexFormat.of().parseHex(line.substring(0, cut)), StandardCharsets.UTF_8);
            var answer = new StringBuilder();
            try {
                Pattern.compile(regex);
                for (var topic : line.substring(cut + 1).split(" ")) {
                    answer.append(topic.matches(regex) ? '1' : '0');
                }
            } catch (PatternSyntaxException e) {
                answer = new StringBuilder("invalid");
            } catch (RuntimeException | StackOverflowError e) {
                answer = new StringBuilder("broken"); // Pattern accepts some classes that it then cannot evaluate
            }
            System.out.println(answer);
        }
    }
}
