// SPDX-License-Identifier: MIT
//
// The agent of Redisson (agents.py says what is said to it). An actor is a thread of its own, as Redisson's owners are.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.ShardedSubscriptionMode;

public class Agent {
    // More than one where independent servers decide by majority.
    static final Map<String, List<RedissonClient>> clients = new ConcurrentHashMap<>();
    static final Map<String, Actor> actors = new ConcurrentHashMap<>();

    static synchronized void answer(String sequence, String text) {
        System.out.println(sequence + " " + text.replace('\n', ' '));
        System.out.flush();
    }

    static void useSingle(Config config, String url) {
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(8);
    }

    // redis-sentinel://HOST,HOST,HOST/MASTER
    static void useSentinels(Config config, String[] hosts, String master) {
        SentinelServersConfig servers = config.useSentinelServers().setMasterName(master);
        small(servers);
        for (String host : hosts) {
            servers.addSentinelAddress("redis://" + host);
        }
    }

    // redis-cluster://HOST,HOST,HOST, or with ?classic: messages by PUBLISH, not by SPUBLISH
    static void useCluster(Config config, String[] hosts, boolean classic) {
        ClusterServersConfig servers = config.useClusterServers();
        small(servers);
        if (classic) {
            servers.setShardedSubscriptionMode(ShardedSubscriptionMode.OFF);
        }
        for (String host : hosts) {
            servers.addNodeAddress("redis://" + host);
        }
    }

    static void small(BaseMasterSlaveServersConfig<?> servers) {
        servers.setReadMode(ReadMode.MASTER).setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(16)
            .setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(8);
    }

    static List<RedissonClient> open(String url, long watchdogMs, long fairWaitMs) {
        String rest = url.substring(url.indexOf("://") + 3);
        String query = rest.contains("?") ? rest.substring(rest.indexOf('?') + 1) : "";
        String[] place = rest.split("[?]")[0].split("/");
        String[] hosts = place[0].split(",");
        List<RedissonClient> all = new ArrayList<>();
        if (url.startsWith("redlock:")) {
            for (String host : hosts) {
                all.addAll(open("redis://" + host, watchdogMs, fairWaitMs));
            }
            return all;
        }
        Config config = new Config();
        if (url.startsWith("redis-sentinel:")) {
            useSentinels(config, hosts, place[1]);
        } else if (url.startsWith("redis-cluster:")) {
            useCluster(config, hosts, query.equals("classic"));
        } else {
            useSingle(config, url);
        }
        config.setThreads(4).setNettyThreads(2);
        if (watchdogMs > 0) {
            config.setLockWatchdogTimeout(watchdogMs);
        }
        if (fairWaitMs > 0) {
            config.setFairLockWaitTimeout(fairWaitMs);
        }
        all.add(Redisson.create(config));
        return all;
    }

    static class Actor {
        final List<RedissonClient> all;
        final RedissonClient client;
        final ExecutorService executor;
        volatile Thread thread;
        final Map<String, Deque<List<String>>> permits = new HashMap<>();

        Actor(List<RedissonClient> all) {
            this.all = all;
            client = all.get(0);
            executor = Executors.newSingleThreadExecutor(work -> {
                thread = new Thread(work);
                thread.setDaemon(true);
                return thread;
            });
        }

        RLock lock(String name, String kind) {
            RLock[] locks = all.stream().map(one -> lock(one, name, kind)).toArray(RLock[]::new);
            return locks.length == 1 ? locks[0] : client.getRedLock(locks);
        }

        static RLock lock(RedissonClient client, String name, String kind) {
            switch (kind) {
            case "mutex":
                return client.getLock(name);
            case "fenced":
                return client.getFencedLock(name);
            case "fair":
                return client.getFairLock(name);
            case "spin":
                return client.getSpinLock(name);
            case "reader":
                return client.getReadWriteLock(name).readLock();
            case "writer":
                return client.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException("kind " + kind);
            }
        }

        // The token, 0 where the kind has none, -1: busy.
        long acquire(String name, String kind, long waitMs, long leaseMs) throws InterruptedException {
            if (kind.startsWith("semaphore:")) {
                return acquirePermits(name, kind, waitMs, leaseMs);
            }
            RLock lock = lock(name, kind);
            long lease = leaseMs > 0 ? leaseMs : -1;
            if (lock instanceof RFencedLock) {
                long most = waitMs < 0 ? 3600000 : waitMs;
                Long token = ((RFencedLock) lock).tryLockAndGetToken(most, lease, TimeUnit.MILLISECONDS);
                return token == null ? -1 : token;
            }
            if (waitMs < 0) {
                if (leaseMs > 0) {
                    lock.lock(leaseMs, TimeUnit.MILLISECONDS);
                } else {
                    lock.lock();
                }
                return 0;
            }
            boolean had = waitMs == 0 && leaseMs <= 0 ? lock.tryLock()
                                                      : lock.tryLock(waitMs, lease, TimeUnit.MILLISECONDS);
            return had ? 0 : -1;
        }

        long acquirePermits(String name, String kind, long waitMs, long leaseMs) throws InterruptedException {
            String[] parts = kind.split(":");
            int weight = parts.length > 2 ? Integer.parseInt(parts[2]) : 1;
            RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
            semaphore.trySetPermits(Integer.parseInt(parts[1]));
            List<String> ids = semaphore.tryAcquire(weight, waitMs < 0 ? 3600000 : waitMs, leaseMs > 0 ? leaseMs : -1,
                                                    TimeUnit.MILLISECONDS);
            if (ids == null || ids.isEmpty()) {
                return -1;
            }
            permits.computeIfAbsent(name, key -> new ArrayDeque<>()).push(ids);
            return 0;
        }

        String release(String name, String kind) {
            if (kind.startsWith("semaphore:")) {
                Deque<List<String>> held = permits.get(name);
                if (held == null || held.isEmpty()) {
                    return "lost";
                }
                RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
                List<String> ids = held.pop();
                return semaphore.tryRelease(ids) == ids.size() ? "ok" : "lost";
            }
            try {
                lock(name, kind).unlock();
                return "ok";
            } catch (IllegalMonitorStateException e) {
                return "lost";
            }
        }

        long left(String name, String kind) {
            RLock lock = lock(name, kind);
            return lock.isHeldByCurrentThread() ? Math.max(lock.remainTimeToLive(), 0) : 0;
        }

        String loop(String[] w) throws Exception {
            String name = w[3];
            String kind = w[4];
            long waitMs = Long.parseLong(w[5]);
            long leaseMs = Long.parseLong(w[6]);
            int rounds = Integer.parseInt(w[7]);
            long holdMs = Long.parseLong(w[8]);
            Path folder = Path.of(w[9]);
            int grants = 0;
            int busy = 0;
            int clashes = 0;
            for (int i = 0; i < rounds; i++) {
                long fence = acquire(name, kind, waitMs, leaseMs);
                if (fence < 0) {
                    busy++;
                    continue;
                }
                grants++;
                clashes += Guard.inside(folder, kind, holdMs, fence);
                release(name, kind);
            }
            return "ok " + grants + " " + busy + " " + clashes;
        }

        String act(String[] w) throws Exception {
            switch (w[2]) {
            case "acquire":
                long fence = acquire(w[3], w[4], Long.parseLong(w[5]), Long.parseLong(w[6]));
                return fence < 0 ? "busy" : "ok " + fence;
            case "release":
                return release(w[3], w[4]);
            case "left":
                return "ok " + left(w[3], w[4]);
            case "force":
                return lock(w[3], w[4]).forceUnlock() ? "ok" : "lost";
            case "loop":
                return loop(w);
            default:
                return "failed verb " + w[2];
            }
        }
    }

    // The folder that is guarded.
    static class Guard {
        static int inside(Path folder, String kind, long holdMs, long fence) throws Exception {
            char letter = kind.equals("reader") ? 's' : kind.startsWith("semaphore:") ? 'c' : 'x';
            long weight = kind.split(":").length > 2 ? Long.parseLong(kind.split(":")[2]) : 1;
            Path mine = folder.resolve(letter + "." + UUID.randomUUID() + "." + weight);
            Files.createFile(mine);
            int clashes = clash(folder, letter, kind, mine) ? 1 : 0;
            if (letter == 'x' && fence > 0 && !rises(folder.resolve("fence"), fence)) {
                clashes++;
            }
            Thread.sleep(holdMs);
            Files.delete(mine);
            return clashes;
        }

        static boolean clash(Path folder, char letter, String kind, Path mine) throws IOException {
            long counted = 0;
            boolean clash = false;
            try (Stream<Path> all = Files.list(folder)) {
                for (Path path : (Iterable<Path>) all::iterator) {
                    String file = path.getFileName().toString();
                    if (file.startsWith("c.")) {
                        counted += Long.parseLong(file.substring(file.lastIndexOf('.') + 1));
                    } else if (!path.equals(mine) && file.charAt(1) == '.') {
                        clash = clash || letter == 'x' || file.startsWith("x.");
                    }
                }
            }
            return clash || (letter == 'c' && counted > Long.parseLong(kind.split(":")[1]));
        }

        static boolean rises(Path file, long fence) throws IOException {
            long last = Files.exists(file) ? Long.parseLong(Files.readString(file).trim()) : 0;
            Files.writeString(file, fence + "\n");
            return last < fence;
        }
    }

    static void serve(String line) {
        String[] w = line.trim().split(" +");
        if (w.length < 3) {
            return;
        }
        if (!w[1].contains("/")) {
            try {
                if (w[2].equals("open")) {
                    long watchdogMs = w.length > 4 ? Long.parseLong(w[4]) : 0;
                    clients.put(w[1], open(w[3], watchdogMs, w.length > 5 ? Long.parseLong(w[5]) : 0));
                } else {
                    for (RedissonClient client : clients.remove(w[1])) {
                        client.shutdown(0, 1, TimeUnit.SECONDS);
                    }
                }
                answer(w[0], "ok");
            } catch (Exception e) {
                answer(w[0], "failed " + e);
            }
            return;
        }
        Actor actor = actors.computeIfAbsent(w[1], who -> new Actor(clients.get(who.substring(0, who.indexOf('/')))));
        if (w[2].equals("cancel")) {
            actor.thread.interrupt();
            answer(w[0], "ok");
            return;
        }
        actor.executor.execute(() -> {
            try {
                answer(w[0], actor.act(w));
            } catch (InterruptedException e) {
                answer(w[0], "cancelled");
            } catch (Exception e) {
                answer(w[0], "failed " + e);
            }
        });
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            serve(line);
        }
        Runtime.getRuntime().halt(0);
    }
}
