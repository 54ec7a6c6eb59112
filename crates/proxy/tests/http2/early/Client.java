// Sends bodies that are not wanted, one after another, and expects an answer to each.
//
// Usage: java Client.java URL STATUS REQUESTS SIZE...

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

public class Client {
    static class Anybody implements X509TrustManager {
        public void checkClientTrusted(X509Certificate[] chain, String type) {}

        public void checkServerTrusted(X509Certificate[] chain, String type) {}

        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }

    static String post(HttpClient client, URI url, int size) {
        var request = HttpRequest.newBuilder(url)
                .timeout(Duration.ofSeconds(30))
                .POST(BodyPublishers.ofByteArray(new byte[size]))
                .build();
        try {
            var answer = client.send(request, BodyHandlers.ofString());
            return answer.version() + " " + answer.statusCode() + " " + !answer.body().isEmpty();
        } catch (Exception error) {
            return error.toString();
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("jdk.internal.httpclient.disableHostnameVerification", "true");
        var url = URI.create(arguments[0]);
        int count = Integer.parseInt(arguments[2]);
        var context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Anybody()}, null);
        var client = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_2)
                .sslContext(context)
                .build();
        List<String> lost = new ArrayList<>();
        for (int turn = 0; turn < count; turn++) {
            int size = Integer.parseInt(arguments[3 + turn % (arguments.length - 3)]);
            String got = post(client, url, size);
            if (!got.equals("HTTP_2 " + arguments[1] + " true")) {
                lost.add(size + " bytes: " + got);
            }
        }
        System.out.println((count - lost.size()) + " of " + count);
        lost.stream().limit(5).forEach(System.out::println);
        System.exit(0);
    }
}
