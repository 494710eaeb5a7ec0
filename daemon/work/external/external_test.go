package external

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/daemon/config"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"

	"go.uber.org/goleak"
)

// helper in the environment makes the tests' program a worker that behaves in the way that
// it names: of the protocol exec, or an agent.
const helper = "CRABMEM_TEST_WORKER"

func TestMain(m *testing.M) {
	how := os.Getenv(helper)
	if name, ok := strings.CutPrefix(how, "agent "); ok {
		agent(name, os.Stdin, os.Stdout)
		return
	}
	if how != "" {
		behave(how)
		return
	}
	goleak.VerifyTestMain(m)
}

func behave(how string) {
	switch how {
	case "works":
		task, _ := io.ReadAll(os.Stdin)
		fmt.Fprintf(os.Stderr, "1 of 2\n\n \t \n\x1b[31m2 of\t2\xff\n%s%s\n", strings.Repeat("long ", 100_000), "line")
		dir, _ := os.Getwd()
		fmt.Printf("%s in %s with %s", task, dir, strings.Join(os.Args[1:], ","))
	case "deaf":
		fmt.Print("without the task")
	case "fails":
		fmt.Print("so far")
		fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 1000)+"config: no such file\n")
		os.Exit(3)
	case "crashes":
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			p.Kill() //nolint:errcheck // the test sees it
		}
	case "large":
		for i := range 100_000 {
			fmt.Printf("%d é\xff\n", i)
		}
	case "floods":
		for {
			os.Stdout.WriteString(strings.Repeat("x", 1<<20))
		}
	case "chatters":
		for i := range 5000 {
			fmt.Fprintf(os.Stderr, "step %d\n", i)
		}
	case "leaves":
		holdOpen()
		fmt.Print("left")
	case "silent":
		time.Sleep(time.Hour)
	case "environment":
		fmt.Print(strings.Join(os.Environ(), "\n"))
	case "stubborn", "polite":
		if how == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
		child := exec.Command("sleep", "300") // of the same group
		if child.Start() == nil {
			os.WriteFile(os.Getenv("PIDS"), fmt.Appendf(nil, "%d %d", os.Getpid(), child.Process.Pid), 0o600)
		}
		fmt.Print("so far")
		fmt.Fprintln(os.Stderr, "working")
		stop := make(chan os.Signal, 1)
		if how == "polite" {
			signal.Notify(stop, syscall.SIGTERM)
		}
		<-stop
	}
}

// worker returns the tests' program as a worker.
func worker(t testing.TB, protocol, how string) *config.ExternalWorker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if protocol == config.ACP {
		how = "agent " + how
	}
	return &config.ExternalWorker{Name: "w", Protocol: protocol, Command: self, Permissions: "deny", Env: map[string]config.Secret{helper: config.Secret(how)}}
}

// reports are what a run reports.
type reports struct{ statuses, sessions []string }

func (r *reports) callbacks() Callbacks {
	return Callbacks{func(text string) { r.statuses = append(r.statuses, text) }, func(id string) { r.sessions = append(r.sessions, id) }}
}

var task = Input{Task: "run the tests", Dir: "/", Version: "test"}

// check checks what holds for every outcome.
func check(t *testing.T, o Outcome, r *reports) {
	t.Helper()
	if err := work.Transition(work.Status{State: record.Running, Reason: work.Spawned}, o.Status); err != nil {
		t.Error(err)
	}
	if len(o.Text) > record.MaxResult || !utf8.ValidString(o.Text) {
		t.Errorf("a text of %d bytes, or not UTF-8", len(o.Text))
	}
	for _, s := range r.statuses {
		if s == "" || len(s) > maxStatus || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("status %q", s)
		}
	}
	if len(r.sessions) > 1 || len(r.sessions) == 1 && !isID(r.sessions[0]) {
		t.Errorf("sessions %q", r.sessions)
	}
}

// want compares an outcome with its status and the words of its text.
func want(t *testing.T, o Outcome, status string, words ...string) {
	t.Helper()
	if o.Status.String() != status {
		t.Errorf("%v, want %s", o.Status, status)
	}
	for _, w := range words {
		if !strings.Contains(o.Text, w) {
			t.Errorf("the text has no %q: %.2000q", w, o.Text)
		}
	}
}

// TestExec runs workers of the protocol exec, whose programs end by themselves.
func TestExec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how, status string
		words       []string
	}{
		{"works", "done (outcome)", []string{"run the tests in / with -a,b"}},
		{"deaf", "done (outcome)", []string{"without the task"}},
		{"fails", "failed (error)", []string{"w: exit status 3\n", "The end of its standard error:\n", "noise\nconfig: no such file\n\nIts text until then:\nso far"}},
		{"crashes", "failed (error)", []string{"w: signal: killed"}},
		{"large", "done (outcome)", []string{"0 é\uFFFD\n1 é", " bytes left out] ...", "99999 é"}},
		{"floods", "failed (error)", []string{"w: it wrote 64 MiB", "xxx"}},
		{"leaves", "done (outcome)", []string{"left"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			var r reports
			w, pids := worker(t, config.Exec, c.how), filepath.Join(t.TempDir(), "pids")
			w.Args, w.Env["PIDS"] = []config.Secret{"-a", "b"}, config.Secret(pids)
			o := Run(t.Context(), w, task, r.callbacks())
			check(t, o, &r)
			want(t, o, c.status, c.words...)
			if c.how == "works" && !(len(r.statuses) == 3 && r.statuses[0] == "1 of 2" && r.statuses[1] == "␛[31m2 of 2\uFFFD" && strings.HasSuffix(r.statuses[2], "…")) {
				t.Errorf("statuses %q", r.statuses)
			}
			if c.how == "leaves" {
				stopOther(t, pids)
			}
		})
	}
}

// stopOther ends the process that holdOpen started.
func stopOther(t *testing.T, pids string) {
	t.Helper()
	b, err := os.ReadFile(pids)
	pid, aerr := strconv.Atoi(string(b))
	if err != nil || aerr != nil {
		t.Fatal(err, aerr)
	}
	if gone(pid) {
		t.Error("the other program does not run: it had nothing open")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill() //nolint:errcheck // it may have exited
}

// TestStatusRate counts the statuses of a worker that writes thousands of lines.
func TestStatusRate(t *testing.T) {
	var r reports
	began := time.Now()
	o := Run(t.Context(), worker(t, config.Exec, "chatters"), task, r.callbacks())
	check(t, o, &r)
	want(t, o, "done (outcome)")
	if n := len(r.statuses); n < 10 || n > 11+int(time.Since(began)/time.Second) || r.statuses[9] != "step 9" {
		t.Errorf("%d statuses: %q", n, r.statuses)
	}
}

// TestNotStarted checks the outcomes of workers that cannot start.
func TestNotStarted(t *testing.T) {
	w := worker(t, config.Exec, "works")
	missing := *w
	missing.Command = "/no/such/program"
	for _, c := range []struct {
		w    *config.ExternalWorker
		in   Input
		word string
	}{
		{w, Input{}, "requires an absolute directory"}, {w, Input{Dir: "work"}, "requires an absolute directory"},
		{w, Input{Dir: "/", Session: "s"}, "the protocol acp to continue a session"},
		{w, Input{Dir: "/no/such/dir"}, "no such file or directory"}, {&missing, task, "/no/such/program"},
	} {
		var r reports
		o := Run(t.Context(), c.w, c.in, r.callbacks())
		check(t, o, &r)
		want(t, o, "failed (error)", "w: ", c.word)
	}
	here := *w
	here.Dir = "/"
	o := Run(t.Context(), &here, Input{Task: "x"}, Callbacks{})
	want(t, o, "done (outcome)", "x in / with ")
}

// TestEnvironment checks which variables a worker inherits.
func TestEnvironment(t *testing.T) {
	t.Setenv("MY_TOKEN", "planted")
	t.Setenv("LC_ALL", "C")
	w := worker(t, config.Exec, "environment")
	w.Env["OWN"] = "1"
	o := Run(t.Context(), w, task, Callbacks{})
	want(t, o, "done (outcome)", "OWN=1", "LC_ALL=C", "PATH=")
	if strings.Contains(o.Text, "MY_TOKEN") {
		t.Error("a variable of the daemon is inherited")
	}
}

// TestStopped ends the context of workers that have written a text: the process, its
// children, and the goroutines end, and the text remains.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol, how string
		cause         error
		status, text  string
		least         time.Duration
	}{
		{config.Exec, "polite", nil, "failed (cancelled)", "w: cancelled", 0},
		{config.Exec, "stubborn", nil, "failed (cancelled)", "w: cancelled", cancelGrace},
		{config.Exec, "stubborn", errTimeout, "failed (timeout)", "w: its time limit is exceeded", cancelGrace},
		{config.Exec, "polite", errIdle, "failed (stalled)", "w: no output until its idle time limit", 0},
		{config.ACP, "stays", nil, "failed (cancelled)", "w: cancelled", cancelGrace},
		{config.ACP, "stays", errIdle, "failed (stalled)", "w: no output until its idle time limit", cancelGrace},
		{config.ACP, "cancels", errTimeout, "failed (timeout)", "w: its time limit is exceeded", 0},
	} {
		t.Run(fmt.Sprint(c.protocol, c.how, c.cause), func(t *testing.T) {
			t.Parallel()
			w, pids := worker(t, c.protocol, c.how), filepath.Join(t.TempDir(), "pids")
			w.Env["PIDS"] = config.Secret(pids)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var r reports
			var began time.Time
			on := r.callbacks()
			on.Status = func(string) { began = time.Now(); cancel(c.cause) }
			o := Run(ctx, w, task, on)
			if took := time.Since(began); took < c.least {
				t.Errorf("it was killed after %v", took)
			}
			check(t, o, &r)
			want(t, o, c.status, c.text, "Its text until then:\nso far")
			if c.protocol == config.ACP {
				return
			}
			var pid, child int
			b, err := os.ReadFile(pids)
			if _, serr := fmt.Sscan(string(b), &pid, &child); err != nil || serr != nil {
				t.Fatal(err, serr)
			}
			if !gone(pid) {
				t.Errorf("process %d exists", pid)
			}
			gate.Until(t, "its child ends", func() bool { return gone(child) || zombie(child) })
		})
	}
}

// TestLimits runs a worker that writes nothing.
func TestLimits(t *testing.T) {
	w := worker(t, config.Exec, "silent")
	w.Timeout = time.Millisecond
	want(t, Run(t.Context(), w, task, Callbacks{}), "failed (timeout)")
	w.Timeout, w.IdleTimeout = 0, time.Millisecond
	want(t, Run(t.Context(), w, task, Callbacks{}), "failed (stalled)")
}

// zombie reports whether a process has exited and awaits another process.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(b), ") Z ")
}

// TestAgentProcess runs agents as processes.
func TestAgentProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how, status string
		words       []string
	}{
		{"good", "done (outcome)", []string{"12 passed"}},
		{"dies", "failed (error)", []string{"w: it ended before its response: exit status 7\n", "panic: out of ideas", "Its text until then:\nso far"}},
		{"leaves", "failed (error)", []string{"w: it ended before its response: exit status 0\n", "so far"}},
		{"oversized", "failed (error)", []string{"w: message exceeds 8 MiB"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			var r reports
			w, pids := worker(t, config.ACP, c.how), filepath.Join(t.TempDir(), "pids")
			w.Env["PIDS"] = config.Secret(pids)
			o := Run(t.Context(), w, task, r.callbacks())
			check(t, o, &r)
			want(t, o, c.status, c.words...)
			if c.how == "leaves" {
				stopOther(t, pids)
			}
			if c.how == "good" && !slices.Equal(r.statuses, []string{"run ␛[31mgo test"}) {
				t.Errorf("statuses %q", r.statuses)
			}
		})
	}
}
