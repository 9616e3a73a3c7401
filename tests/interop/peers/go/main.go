// SPDX-License-Identifier: MIT

// The agent of two Go libraries, redsync and bsm/redislock (agents.py says what is said to it); its argument says
// which. An actor is a goroutine. Its locks always have a lease.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	defaultLease = 30 * time.Second
	retry        = 50 * time.Millisecond
)

// A lock that is held, of either library.
type held interface {
	release(ctx context.Context) (bool, error)
}

type syncHeld struct{ mutex *redsync.Mutex }
type bsmHeld struct{ lock *redislock.Lock }

func (h syncHeld) release(ctx context.Context) (bool, error) {
	ok, err := h.mutex.UnlockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	return ok, err
}

func (h bsmHeld) release(ctx context.Context) (bool, error) {
	err := h.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

type actor struct {
	library string
	servers []*redis.Client // more than one where they decide by majority
	held    map[string][]held
	work    chan []string
}

var (
	output  sync.Mutex
	clients = map[string][]*redis.Client{}
	actors  = map[string]*actor{}
	unique  = make(chan int)
)

func answer(sequence, text string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(sequence, text)
}

func (a *actor) obtain(name string, wait, lease time.Duration) (held, error) {
	ctx := context.Background()
	tries := int(wait/retry) + 1
	if wait < 0 {
		tries = 1 << 30
	}
	if a.library == "redsync" {
		var pools []redsyncredis.Pool
		for _, server := range a.servers {
			pools = append(pools, goredis.NewPool(server))
		}
		mutex := redsync.New(pools...).NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(tries),
			redsync.WithRetryDelay(retry))
		err := mutex.LockContext(ctx)
		var taken *redsync.ErrTaken
		if errors.Is(err, redsync.ErrFailed) || errors.As(err, &taken) {
			return nil, nil
		}
		return syncHeld{mutex}, err
	}
	strategy := redislock.LimitRetry(redislock.LinearBackoff(retry), tries-1)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(tries)*retry+10*time.Second)
	defer cancel()
	lock, err := redislock.Obtain(ctx, a.servers[0], name, lease, &redislock.Options{RetryStrategy: strategy})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, nil
	}
	return bsmHeld{lock}, err
}

func (a *actor) acquire(name string, waitMs, leaseMs int) (bool, error) {
	lease := time.Duration(leaseMs) * time.Millisecond
	if leaseMs == 0 {
		lease = defaultLease
	}
	lock, err := a.obtain(name, time.Duration(waitMs)*time.Millisecond, lease)
	if lock == nil || err != nil {
		return false, err
	}
	a.held[name] = append(a.held[name], lock)
	return true, nil
}

func (a *actor) release(name string) (bool, error) {
	locks := a.held[name]
	if len(locks) == 0 {
		return false, nil
	}
	a.held[name] = locks[:len(locks)-1]
	return locks[len(locks)-1].release(context.Background())
}

func inside(folder string, hold time.Duration) (int, error) {
	mine := fmt.Sprintf("x.%d-%d.1", os.Getpid(), <-unique)
	file, err := os.OpenFile(filepath.Join(folder, mine), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	file.Close()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	clashes := 0
	for _, entry := range entries {
		if entry.Name() != mine && entry.Name()[1] == '.' {
			clashes = 1
		}
	}
	time.Sleep(hold)
	return clashes, os.Remove(filepath.Join(folder, mine))
}

func (a *actor) loop(name string, n []int, folder string) (string, error) {
	grants, busy, clashes := 0, 0, 0
	for i := 0; i < n[2]; i++ {
		ok, err := a.acquire(name, n[0], n[1])
		if err != nil {
			return "", err
		}
		if !ok {
			busy++
			continue
		}
		grants++
		clash, err := inside(folder, time.Duration(n[3])*time.Millisecond)
		if err != nil {
			return "", err
		}
		clashes += clash
		if _, err := a.release(name); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("ok %d %d %d", grants, busy, clashes), nil
}

func word(ok bool, yes, no string, err error) (string, error) {
	if ok {
		return yes, err
	}
	return no, err
}

func (a *actor) act(w []string) (string, error) {
	var numbers []int
	for _, text := range w[5:] {
		if number, err := strconv.Atoi(text); err == nil {
			numbers = append(numbers, number)
		}
	}
	switch w[2] {
	case "acquire":
		ok, err := a.acquire(w[3], numbers[0], numbers[1])
		return word(ok, "ok 0", "busy", err)
	case "release":
		ok, err := a.release(w[3])
		return word(ok, "ok", "lost", err)
	case "loop":
		return a.loop(w[3], numbers, w[len(w)-1])
	}
	return "", fmt.Errorf("verb %s", w[2])
}

func (a *actor) run() {
	for w := range a.work {
		text, err := a.act(w)
		if err != nil {
			text = "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		answer(w[0], text)
	}
}

func serve(library string, w []string) {
	client, _, isActor := strings.Cut(w[1], "/")
	if isActor {
		if actors[w[1]] == nil {
			actors[w[1]] = &actor{library, clients[client], map[string][]held{}, make(chan []string, 16)}
			go actors[w[1]].run()
		}
		actors[w[1]].work <- w
		return
	}
	if w[2] == "open" {
		hosts, several := strings.CutPrefix(w[3], "redlock://")
		urls := []string{w[3]}
		if several {
			urls = strings.Split(hosts, ",")
		}
		for _, url := range urls {
			if several {
				url = "redis://" + url
			}
			options, err := redis.ParseURL(url)
			if err != nil {
				answer(w[0], "failed "+err.Error())
				return
			}
			clients[client] = append(clients[client], redis.NewClient(options))
		}
	}
	answer(w[0], "ok")
}

func main() {
	go func() {
		for i := 0; ; i++ {
			unique <- i
		}
	}()
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		if w := strings.Fields(scanner.Text()); len(w) >= 3 {
			serve(os.Args[1], w)
		}
	}
}
