package kill_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/fuzz/kill/history"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const (
	sessionWriters = 4 // goroutines of a process that writes sessions
	sessions       = 3 // number of sessions, to which each goroutine writes
)

// stream returns the index of a writer of a session among all writers of all
// sessions.
func stream(session, writer int) int { return session*sessionWriters + writer }

// childSessions writes sessions with four goroutines until it is killed. Its
// arguments are the folder, the seed, and the number of existing parts of each
// stream.
func childSessions(args []string) error {
	sd, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	d, err := sessionlog.OpenDir(args[0], &sessionlog.Options{MaxOpen: 2, Command: "childSessions"})
	if err != nil {
		return err
	}
	for i := range sessions {
		l, err := d.Open(history.SessionID(i))
		if errors.Is(err, sessionlog.ErrNotFound) {
			l, err = d.Create(history.SessionMeta(i))
		}
		if err != nil {
			return err
		}
		if l.ID() != history.SessionID(i) {
			return fmt.Errorf("session %d was created as %s", i, l.ID())
		}
		defer l.Close()
	}
	errs := make(chan error, sessionWriters)
	for w := range sessionWriters {
		go func() { errs <- continueSessions(d, sd, w, args[2:]) }()
	}
	return <-errs
}

// continueSessions continues the streams of a writer, in random order, until an
// error. done contains the number of existing parts of each stream.
func continueSessions(d *sessionlog.Dir, sd uint64, w int, done []string) error {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(w)))
	var ws [sessions]*history.SessionWriter
	var rest [sessions][]history.Part
	var logs [sessions]*sessionlog.Log
	for i := range sessions {
		n, err := strconv.Atoi(done[stream(i, w)])
		if err != nil {
			return err
		}
		ws[i] = history.NewSessionWriter(sd, i, w)
		rest[i] = ws[i].Skip(n)
		if logs[i], err = d.Open(history.SessionID(i)); err != nil {
			return err
		}
	}
	for {
		i := rng.IntN(sessions)
		t := ws[i]
		op := rest[i]
		if rest[i] = nil; op == nil {
			op = t.Next()
		}
		os.Stdout.Write(history.Issued(stream(i, w), t.N()))
		if err := t.Do(logs[i], op); err != nil {
			return fmt.Errorf("writer %d, session %d, part %d: %w", w, i, t.N(), err)
		}
		os.Stdout.Write(history.Acked(stream(i, w), t.N()))
		if rng.IntN(20) == 0 {
			err := logs[i].Close()
			if err == nil {
				logs[i], err = d.Open(history.SessionID(i))
			}
			if err != nil {
				return fmt.Errorf("writer %d, reopen session %d: %w", w, i, err)
			}
		}
	}
}

// sessionKills counts the results of killed session writers.
type sessionKills struct {
	acked    int // acknowledged parts
	inFlight int // found parts without an acknowledgment
	torn     int // sessions that a reader found with a torn tail
	warnings int // reports of recoveries
}

// TestKillSessions repeatedly kills a process with four writers on three sessions.
// Most processes continue with the folder of the previous process.
func TestKillSessions(t *testing.T) {
	n := rounds(20, 1000)
	rng := seed.Random(t)
	var sum sessionKills
	done := 0
	for done < n || done < 20*n && sum.acked < n/2 { // the load determines how many messages a process writes
		life := min(1+rng.IntN(25), max(n-done, 1))
		sum.life(t, filepath.Join(t.TempDir(), "home", "sessions"), rng, life)
		done += life
	}
	t.Logf("kill -9 of session writers: %d iterations, %d messages, titles and markers acknowledged, 0 lost, %d in flight kept, %d torn tails found, %d repairs reported",
		done, sum.acked, sum.inFlight, sum.torn, sum.warnings)
	if sum.acked < n/2 {
		t.Errorf("%d messages acknowledged in %d iterations: too few to test", sum.acked, done)
	}
}

// life kills the writers of one folder several times, and checks the sessions each
// time.
func (k *sessionKills) life(t *testing.T, path string, rng *rand.Rand, kills int) {
	t.Helper()
	sd := rng.Uint64()
	checker := history.NewSessionChecker(sd, sessionWriters)
	found := make([]int, sessions*sessionWriters)
	for n := range kills {
		p := &history.Progress{Issued: slices.Clone(found), Acked: slices.Clone(found)}
		args := []any{path, sd}
		for _, f := range found {
			args = append(args, f)
		}
		out := killAfter(t, rng, "sessions", args)
		if err := p.Read(bytes.NewReader(out)); err != nil {
			t.Fatal(err)
		}
		for i := range p.Acked {
			k.acked += p.Acked[i] - found[i]
		}
		// In half of the cases this process recovers the sessions, else the next child.
		reopen := rng.IntN(2) == 0 || n == kills-1
		for i := range sessions {
			got, err := k.look(checker, path, i, p, reopen)
			if err != nil {
				t.Fatalf("kill %d of history %d, session %d in %s: %v", n, sd, i, path, err)
			}
			for w := range sessionWriters {
				k.inFlight += got[w] - p.Acked[stream(i, w)]
			}
			copy(found[stream(i, 0):], got)
		}
	}
}

// look checks one session and returns the number of parts of each writer. If
// reopen is true, it opens the session for writing first.
func (k *sessionKills) look(checker *history.SessionChecker, path string, i int, p *history.Progress, reopen bool) ([]int, error) {
	acked, issued := p.Acked[stream(i, 0):stream(i+1, 0)], p.Issued[stream(i, 0):stream(i+1, 0)]
	warned := 0
	d, err := sessionlog.OpenDir(path, &sessionlog.Options{Warn: func(string) { warned++ }})
	if err != nil {
		return nil, err
	}
	id := history.SessionID(i)
	var c *sessionlog.Context
	if reopen {
		l, err := d.Open(id)
		if errors.Is(err, sessionlog.ErrNotFound) && slices.Max(issued) == 0 {
			return make([]int, sessionWriters), nil
		}
		if err != nil {
			return nil, err
		}
		c, err = l.Context()
		if err := errors.Join(err, l.Close(), d.Close()); err != nil {
			return nil, err
		}
		k.warnings += warned
	}
	s, err := d.Read(id)
	if errors.Is(err, sessionlog.ErrNotFound) && slices.Max(issued) == 0 {
		return make([]int, sessionWriters), nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	f, err := checker.Read(i, s.Lines(0))
	if err != nil {
		return nil, err
	}
	if f.Bad != nil {
		if reopen || !f.Torn {
			return nil, f.Bad
		}
		k.torn++
	}
	if !reopen {
		if c, err = s.Context(); err != nil {
			return nil, err
		}
	}
	if err := f.Context(c); err != nil {
		return nil, err
	}
	return f.Parts, f.Within(acked, issued)
}

// killAfter starts a child and kills it after 1 to 50 ms. Mostly the time begins
// with the first write, sometimes with the start of the process. It returns the
// child's output.
func killAfter(t *testing.T, rng *rand.Rand, name string, args []any) []byte {
	t.Helper()
	cmd := child(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	m := &marks{first: make(chan struct{})}
	cmd.Stdout = m
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	delay := time.Duration(1+rng.IntN(50)) * time.Millisecond
	if rng.IntN(5) > 0 {
		select {
		case <-m.first:
		case <-time.After(gate.Hang):
			t.Errorf("no operation in %v; stderr: %s", gate.Hang, &stderr)
		}
	}
	time.Sleep(delay)
	cmd.Process.Kill()
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("%s %v failed: %s", name, args, &stderr)
	}
	return m.bytes()
}

const createsEach = 5

// childCreate creates sessions of one agent and sender from a given time on, and
// prints their IDs. Its arguments are the folder, its name, and the time in Unix
// nanoseconds.
func childCreate(args []string) error {
	at, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	d, err := sessionlog.OpenDir(args[0], &sessionlog.Options{LockWait: lockWait})
	if err != nil {
		return err
	}
	time.Sleep(time.Until(time.Unix(0, at)))
	for i := range createsEach {
		m := history.SessionMeta(0)
		if i%2 == 1 {
			m.Title = "by " + args[1]
		}
		l, err := d.Create(m)
		if err != nil {
			return err
		}
		err = l.Append(sessionlog.Message{Role: record.RoleUser, Content: args[1]})
		if err = errors.Join(err, l.Close()); err != nil {
			return err
		}
		fmt.Println(l.ID())
	}
	return d.Close()
}

// TestCreateAtOnce has eight processes create sessions of one agent and sender at
// the same time. All IDs must be different.
func TestCreateAtOnce(t *testing.T) {
	n, processes := rounds(2, 20), 8
	for range n {
		path := filepath.Join(t.TempDir(), "not", "there", "sessions")
		at := time.Now().Add(150 * time.Millisecond).UnixNano()
		errs, ids := make([]error, processes), make([]string, processes)
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() {
				out, err := child("create", path, fmt.Sprintf("process %d", i), at).Output()
				ids[i], errs[i] = string(out), err
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		d, err := sessionlog.OpenDir(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		owner := make(map[string]int)
		for i, lines := range ids {
			for id := range strings.FieldsSeq(lines) {
				if other, ok := owner[id]; ok {
					t.Fatalf("processes %d and %d both created %s", other, i, id)
				}
				owner[id] = i
				s, err := d.Read(id)
				if err != nil {
					t.Fatal(err)
				}
				c, err := s.Context()
				if err := errors.Join(err, s.Close()); err != nil {
					t.Fatal(err)
				}
				if len(c.Messages) != 1 || c.Messages[0].Content != fmt.Sprintf("process %d", i) {
					t.Errorf("%s of process %d contains %+v", id, i, c.Messages)
				}
			}
		}
		list, err := d.List()
		if want := processes * createsEach; err != nil || len(owner) != want || len(list) != want {
			t.Fatalf("%d IDs and %d sessions listed, want %d: %v", len(owner), len(list), want, err)
		}
	}
	t.Logf("concurrently created sessions: %d rounds of %d processes, %d sessions, 0 lost", n, processes, n*processes*createsEach)
}
