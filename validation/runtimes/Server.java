// SPDX-License-Identifier: GPL-2.0-only
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * GET /w?n=N with a pool of as many threads as there are processors: N objects made and computed over, of which a few
 * replace older ones that stay alive.
 */
public class Server {
    static final class Item {
        Item left;
        final long[] data = new long[28];
    }

    static final int SLOTS = 1 << 15;
    static final Item[] CACHE = new Item[SLOTS];
    static final AtomicInteger NEXT = new AtomicInteger();

    static long work(int n) {
        long sum = n;
        for (int k = 0; k < n; k++) {
            Item made = new Item();
            for (int round = 0; round < 8; round++) {
                for (int i = 0; i < made.data.length; i++) {
                    sum ^= sum << 13;
                    sum ^= sum >>> 7;
                    sum ^= sum << 17;
                    made.data[i] += sum + round;
                }
            }
            // One object in 32 stays.
            if (k % 32 == 0) {
                CACHE[NEXT.getAndIncrement() & SLOTS - 1] = made;
            }
        }
        return sum;
    }

    public static void main(String[] words) throws Exception {
        work(32 * SLOTS);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 256);
        server.setExecutor(Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors()));
        server.createContext("/w", exchange -> {
            int n = Integer.parseInt(exchange.getRequestURI().getQuery().substring(2));
            byte[] body = Long.toString(work(n)).getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
