import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.stream.IntStream;

/** In: texts as big-endian UTF-16 in hex, separated by blanks. Out: their hash codes, a tab, their order as indexes. */
class HashAndOrder {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null; ) {
            var texts = new ArrayList<String>();
            for (var hex : line.split(" ", -1)) {
                var bytes = HexFormat.of().parseHex(hex);
                var units = new char[bytes.length / 2];
                for (int n = 0; n < units.length; n++) {
                    units[n] = (char) ((bytes[2 * n] & 0xff) << 8 | bytes[2 * n + 1] & 0xff);
                }
                texts.add(new String(units));
            }
            var hashes = String.join(" ", texts.stream().map(text -> "" + text.hashCode()).toList());
            var order = IntStream.range(0, texts.size()).boxed().sorted(Comparator.comparing(texts::get));
            System.out.println(hashes + "\t" + String.join(" ", order.map(String::valueOf).toList()));
        }
    }
}
