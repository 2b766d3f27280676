import java.net.URI;
import java.net.http.HttpRequest;
import java.nio.charset.StandardCharsets;
import okhttp3.MediaType;
import okhttp3.MultipartBody;
import okhttp3.OkHttpClient;
import okhttp3.RequestBody;
import org.apache.http.client.methods.CloseableHttpResponse;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.entity.ContentType;
import org.apache.http.entity.StringEntity;
import org.apache.http.entity.mime.HttpMultipartMode;
import org.apache.http.entity.mime.MultipartEntityBuilder;
import org.apache.http.impl.client.CloseableHttpClient;
import org.apache.http.impl.client.HttpClients;
import org.apache.http.util.EntityUtils;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.http.HttpEntity;
import org.springframework.http.HttpHeaders;
import org.springframework.http.client.ClientHttpResponse;
import org.springframework.util.LinkedMultiValueMap;
import org.springframework.web.client.DefaultResponseErrorHandler;
import org.springframework.web.client.RestTemplate;

/** One request of one client: Clients CLIENT json|form BASE TEXT prints the status and the body of the answer. */
public final class Clients {
    private static final byte[] SOUND = {'R', 'I', 'F', 'F', 0, '\r', '\n', (byte) 0xff};

    public static void main(String[] given) throws Exception {
        boolean form = given[1].equals("form");
        String url = given[2] + (form ? "/audio/transcriptions" : "/chat/completions");
        String text = given[3];
        switch (given[0]) {
            case "okhttp" -> okhttp(url, text, form, true);
            case "okhttp-stream" -> okhttp(url, text, form, false);
            case "apache" -> apache(url, text, form, HttpMultipartMode.STRICT);
            case "apache-utf8" -> apache(url, text, form, HttpMultipartMode.RFC6532);
            case "spring" -> spring(url, text, form);
            default -> jdk(url, text);
        }
    }

    private static String chat(String text) {
        return "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"" + text + "\"}]}";
    }

    private static void say(int status, String body) {
        System.out.println(status + " " + body);
    }

    private static void okhttp(String url, String text, boolean form, boolean sized) throws Exception {
        RequestBody sound = RequestBody.create(MediaType.parse("audio/wav"), SOUND);
        RequestBody body = form
            ? new MultipartBody.Builder().setType(MultipartBody.FORM).addFormDataPart("model", "whisper-1")
                .addFormDataPart("prompt", text).addFormDataPart("file", "stimme ü.wav", sound).build()
            : RequestBody.create(MediaType.parse("application/json; charset=utf-8"), chat(text));
        RequestBody sent = sized ? body : new RequestBody() {
            @Override public MediaType contentType() { return body.contentType(); }
            @Override public void writeTo(okio.BufferedSink sink) throws java.io.IOException { body.writeTo(sink); }
        };
        okhttp3.Request request = new okhttp3.Request.Builder().url(url).post(sent).build();
        try (okhttp3.Response answer = new OkHttpClient().newCall(request).execute()) {
            say(answer.code(), answer.body().string());
        }
    }

    private static void apache(String url, String text, boolean form, HttpMultipartMode mode) throws Exception {
        HttpPost post = new HttpPost(url);
        ContentType plain = ContentType.create("text/plain", StandardCharsets.UTF_8);
        post.setEntity(form
            ? MultipartEntityBuilder.create().setMode(mode).addTextBody("model", "whisper-1").addTextBody("prompt", text, plain)
                .addBinaryBody("file", SOUND, ContentType.create("audio/wav"), "stimme.wav").build()
            : new StringEntity(chat(text), ContentType.APPLICATION_JSON));
        try (CloseableHttpClient client = HttpClients.createDefault(); CloseableHttpResponse answer = client.execute(post)) {
            say(answer.getStatusLine().getStatusCode(), EntityUtils.toString(answer.getEntity()));
        }
    }

    private static void spring(String url, String text, boolean form) {
        RestTemplate client = new RestTemplate();
        client.setErrorHandler(new DefaultResponseErrorHandler() {
            @Override public boolean hasError(ClientHttpResponse answer) { return false; }
        });
        HttpHeaders fields = new HttpHeaders();
        Object body = chat(text).getBytes(StandardCharsets.UTF_8);
        if (form) {
            LinkedMultiValueMap<String, Object> parts = new LinkedMultiValueMap<>();
            parts.add("model", "whisper-1");
            parts.add("prompt", text);
            parts.add("file", new ByteArrayResource(SOUND) {
                @Override public String getFilename() { return "stimme.wav"; }
            });
            body = parts;
            fields.set("Content-Type", "multipart/form-data");
        } else {
            fields.set("Content-Type", "application/json");
        }
        var answer = client.postForEntity(url, new HttpEntity<>(body, fields), String.class);
        say(answer.getStatusCode().value(), answer.getBody());
    }

    private static void jdk(String url, String text) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(chat(text))).build();
        var answer = java.net.http.HttpClient.newHttpClient().send(request, java.net.http.HttpResponse.BodyHandlers.ofString());
        say(answer.statusCode(), answer.body());
    }
}
