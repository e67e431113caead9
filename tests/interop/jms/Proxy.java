import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashSet;
import java.util.Set;

/** A port whose connections go to the broker's, until they are cut. */
final class Proxy implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final Set<Socket> clients = new HashSet<>();
    private final Set<Socket> servers = new HashSet<>();

    Proxy(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
                synchronized (this) {
                    clients.add(client);
                    servers.add(server);
                }
                start(() -> pass(client, server));
                start(() -> pass(server, client));
            } catch (IOException error) {
                // The case is over, or the broker takes no connection: its client tries again.
            }
        }
    }

    private void pass(Socket from, Socket to) {
        try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
            in.transferTo(out);
        } catch (IOException error) {
            // It was cut, or an end is gone: so is the other one now.
        }
    }

    /**
     * Cut all connections that there are; new ones pass. The broker is first, so that it
     * knows of the cut before the client is back.
     */
    synchronized void cut() throws IOException {
        closeAll(servers);
        closeAll(clients);
    }

    private static void closeAll(Set<Socket> sockets) throws IOException {
        for (Socket each : sockets) {
            each.close();
        }
        sockets.clear();
    }

    /** Take no more connections. Those that there are pass until an end closes them. */
    @Override
    public void close() throws IOException {
        listener.close();
    }
}
