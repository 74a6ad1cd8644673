// SPDX-License-Identifier: GPL-2.0-only
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/** GET /w?n=N with a pool of eight threads: N small objects made, grouped and sorted, which leaves garbage. */
public class Server {
    record Item(int id, String name, double price) {}

    static String work(int n) {
        Map<String, List<Item>> groups = new HashMap<>();
        for (int i = 0; i < n; i++) {
            Item item = new Item(i, "item-" + i * 7919 % 1000, i * 31 % 977 / 7.0);
            groups.computeIfAbsent(item.name().substring(0, 6), name -> new ArrayList<>()).add(item);
        }
        StringBuilder text = new StringBuilder();
        for (List<Item> group : groups.values()) {
            group.sort((a, b) -> Double.compare(a.price(), b.price()));
            text.append(group.get(0).name()).append(' ').append(group.get(0).price()).append('\n');
        }
        return text.toString();
    }

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 256);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/w", exchange -> {
            byte[] body = work(Integer.parseInt(exchange.getRequestURI().getQuery().substring(2)))
                .getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
