// SPDX-License-Identifier: MIT
//
// Apache Curator on the names that Holdfast uses. Reads lines "KIND PATH ROUNDS THREADS FOLDER" and answers each with
// "done" or "broken: ...". What goes on inside a lock is written down in FOLDER, for all languages alike: one file for
// each that is inside, and a counter that only exclusive holders raise.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Peer {
    static final int LIMIT = 3;

    static void inside(Path folder, String name, boolean exclusive, int limit) throws Exception {
        Path mine = folder.resolve("in").resolve((exclusive ? "w-" : "r-") + name);
        Files.createFile(mine);
        String[] others = folder.resolve("in").toFile().list();
        if (others.length > limit)
            throw new Exception("beside others: " + String.join(" ", others));
        if (!exclusive)
            for (String other : others)
                if (other.startsWith("w-"))
                    throw new Exception("beside a writer");
        if (exclusive) {
            Path counter = folder.resolve("counter");
            long value = Long.parseLong(Files.readString(counter).trim());
            Files.writeString(counter, (value + 1) + "\n");
        }
        Files.delete(mine);
    }

    static void round(CuratorFramework client, String kind, String path, Path folder, String name, int i, Object lock)
        throws Exception {
        if (kind.equals("mutex")) {
            InterProcessMutex mutex = (InterProcessMutex) lock;
            mutex.acquire();
            inside(folder, name, true, 1);
            mutex.release();
        } else if (kind.equals("rw")) {
            InterProcessReadWriteLock rw = (InterProcessReadWriteLock) lock;
            boolean write = i % 3 == 0;
            InterProcessMutex side = write ? rw.writeLock() : rw.readLock();
            side.acquire();
            inside(folder, name, write, write ? 1 : 1000);
            side.release();
        } else {
            Lease lease = ((InterProcessSemaphoreV2) lock).acquire();
            inside(folder, name, false, LIMIT);
            ((InterProcessSemaphoreV2) lock).returnLease(lease);
        }
    }

    static Object make(CuratorFramework client, String kind, String path) {
        return kind.equals("mutex") ? new InterProcessMutex(client, path)
            : kind.equals("rw")     ? new InterProcessReadWriteLock(client, path)
                                    : new InterProcessSemaphoreV2(client, path, LIMIT);
    }

    static String play(CuratorFramework client, String[] word) throws Exception {
        int rounds = Integer.parseInt(word[2]), threads = Integer.parseInt(word[3]);
        Path folder = new File(word[4]).toPath();
        AtomicReference<String> broken = new AtomicReference<>();
        List<Thread> all = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            String name = "java-" + t;
            Thread thread = new Thread(() -> {
                try {
                    Object lock = make(client, word[0], word[1]);
                    for (int i = 0; i < rounds; i++)
                        round(client, word[0], word[1], folder, name, i, lock);
                } catch (Exception e) {
                    broken.set("broken: " + e);
                }
            });
            all.add(thread);
            thread.start();
        }
        for (Thread thread : all)
            thread.join();
        return broken.get() != null ? broken.get() : "done";
    }

    // Acquire and release alone, for the benchmark: "bench PATH SECONDS" is answered with the rate.
    static String bench(CuratorFramework client, String[] word) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, word[1]);
        long from = System.nanoTime(), until = from + (long) (Double.parseDouble(word[2]) * 1e9), count = 0;
        while (System.nanoTime() < until) {
            mutex.acquire();
            mutex.release();
            count++;
        }
        return "rate " + count * 1e9 / (System.nanoTime() - from);
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString("127.0.0.1:" + args[0])
            .sessionTimeoutMs(20000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split(" ");
            System.out.println(word[0].equals("bench") ? bench(client, word) : play(client, word));
        }
        System.exit(0);
    }
}
