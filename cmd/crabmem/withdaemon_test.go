package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon"

	"github.com/rogpeppe/go-internal/testscript"
)

// alone are the scripts that run without a daemon only, and why; so do those
// that start one of their own.
var alone = map[string]string{
	"chat.txtar":              "runs without a daemon too",
	"chat_compaction.txtar":   "starts a daemon of its own",
	"chat_handoff.txtar":      "starts a daemon of its own",
	"chat_kill.txtar":         "starts a daemon of its own",
	"chat_tools.txtar":        "starts a daemon of its own",
	"checkpoint.txtar":        "counts the operations in the log, which a command folds when it ends and a daemon does not",
	"config_check.txtar":      noHome,
	"config_get.txtar":        noHome,
	"guide.txtar":             "runs without a daemon too",
	"identity_new.txtar":      "copies and replaces the files, and changes the identity under the lock: no daemon may have them",
	"init.txtar":              noHome,
	"inspect.txtar":           "shows the bytes of the files, and damages them",
	"remote.txtar":            noHome,
	"repair.txtar":            "damages the files, and repairs them under the lock: no daemon may have them",
	"secrets.txtar":           "changes the configuration of a home that the daemon does not have",
	"send.txtar":              "runs without a daemon too",
	"send_explain.txtar":      "changes the configuration of a home without a daemon",
	"send_direct.txtar":       "runs without a daemon too",
	"service_install.txtar":   "starts a daemon of its own",
	"service_logs.txtar":      "starts a daemon of its own",
	"service_start.txtar":     "starts a daemon of its own",
	"service_status.txtar":    "starts a daemon of its own",
	"service_stop.txtar":      "starts a daemon of its own",
	"service_uninstall.txtar": "starts a daemon of its own",
	"sessions.txtar":          noHome,
	"sessions_import.txtar":   noHome,
	"uninstall.txtar":         "installs the service of the daemon",
	"verify.txtar":            "damages the files, and says how long they are",
}

const noHome = "wants a home that is not there yet"

// TestScriptsWithDaemon runs the scripts again while a daemon has the store and
// the sessions open: output and effects are the same.
func TestScriptsWithDaemon(t *testing.T) {
	t.Parallel()
	p := scriptParams(t)
	files, err := filepath.Glob(filepath.Join(scriptDir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	p.Dir = ""
	p.Condition = func(cond string) (bool, error) { return cond == "daemon", unknownCondition(cond) }
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if alone[filepath.Base(f)] == "" && !strings.Contains(string(text), " crabmem daemon ") {
			p.Files = append(p.Files, f)
		}
	}
	for name := range alone {
		if !slices.Contains(files, filepath.Join(scriptDir, name)) {
			t.Errorf("there is no script %s", name)
		}
	}
	t.Logf("%d scripts, %d of them with a daemon", len(files), len(p.Files))
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := setup(e); err != nil {
			return err
		}
		e.Setenv("CRABMEM_WITH_DAEMON", "1")
		stop, err := serveHome(daemon.Options{
			Home: filepath.Join(e.WorkDir, "home", ".crabtalk"), Store: e.Getenv("CRABMEM_DB"), Getenv: func(string) string { return "" },
		})
		if err != nil {
			return err
		}
		e.Defer(func() {
			if err := stop(); err != nil {
				t.Errorf("%s: the daemon: %v", filepath.Base(e.WorkDir), err)
			}
		})
		return nil
	}
	testscript.Run(t, p)
}

// serveHome serves a home in this process, until stop is called.
func serveHome(o daemon.Options) (stop func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Home), 0o700); err != nil {
		return nil, err
	}
	d, err := daemon.Open(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx) }()
	stop = func() error {
		cancel()
		err := <-ended
		if cerr := d.Close(); err == nil {
			err = cerr
		}
		return err
	}
	for began := time.Now(); time.Since(began) < gate.Hang; {
		if c, err := net.Dial("unix", daemon.Socket(o.Home)); err == nil {
			c.Close()
			return stop, nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil, stop()
}
