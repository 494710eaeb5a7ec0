package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"crabmem/daemon/config"
)

// TestConcurrentConfigChanges runs commands that change the configuration and the keys of
// the gateway concurrently, with and without a daemon. Every change that a command
// acknowledges must be in the files: no command replaces the change of another.
func TestConcurrentConfigChanges(t *testing.T) {
	for _, daemon := range []bool{false, true} {
		t.Run(fmt.Sprintf("daemon=%v", daemon), func(t *testing.T) {
			p := newPatient(t)
			if daemon {
				p.serveWith(map[string]string{"FAR_KEY": "sk-right"})
			}
			must := func(args ...string) {
				if out, code := p.command(append(args, "--lock-wait", "120s")...); code != 0 {
					t.Errorf("%v: exit code %d: %s", args, code, out)
				}
			}
			const n = 4
			for i := range n {
				must("gateway", "key", "add", fmt.Sprintf("old-%d", i), "--trust", "admin")
				must("gateway", "key", "add", fmt.Sprintf("gone-%d", i))
			}
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() { must("config", "set", fmt.Sprintf("env.V%d", i), fmt.Sprint("v", i)) })
				all.Go(func() { must("config", "set", fmt.Sprintf("origins.api:old-%d.trust", i), "untrusted") })
				all.Go(func() { must("gateway", "key", "add", fmt.Sprintf("new-%d", i), "--trust", "admin") })
				all.Go(func() { must("gateway", "key", "remove", fmt.Sprintf("gone-%d", i)) })
			}
			// Two keys of one name: the refused one must not set the trust of the other.
			codes := make([]int, 2)
			for i, level := range []string{"admin", "untrusted"} {
				all.Go(func() { _, codes[i] = p.command("gateway", "key", "add", "same", "--trust", level) })
			}
			all.Wait()
			conf, err := config.Load(p.cli(nil).fs, p.home, func(string) string { return "x" })
			if err != nil {
				t.Fatal(err)
			}
			var keys []gatewayKey
			out, _ := p.command("gateway", "key", "list", "--json")
			if err := json.Unmarshal([]byte(out), &keys); err != nil {
				t.Fatal(err, out)
			}
			trusted := make(map[string]string)
			for _, k := range keys {
				trusted[k.Name] = k.Trust
			}
			for i := range n {
				if got := string(conf.Env[fmt.Sprintf("V%d", i)]); got != fmt.Sprint("v", i) {
					t.Errorf("env.V%d is %q", i, got)
				}
				if got := trusted[fmt.Sprintf("old-%d", i)]; got != "untrusted" {
					t.Errorf("old-%d is %q after its demotion", i, got)
				}
				if got := trusted[fmt.Sprintf("new-%d", i)]; got != "admin" {
					t.Errorf("new-%d is %q", i, got)
				}
				if got, there := trusted[fmt.Sprintf("gone-%d", i)]; there {
					t.Errorf("gone-%d is %q", i, got)
				}
			}
			want := map[string]string{"[0 4]": "admin", "[4 0]": "untrusted"}[fmt.Sprint(codes)]
			if trusted["same"] != want || want == "" {
				t.Errorf("exit codes %v, and the key has the trust %q", codes, trusted["same"])
			}
			text, _ := p.command("config", "get", "origins")
			if strings.Contains(text, "gone-") {
				t.Errorf("the trust in a removed key remains: %s", text)
			}
		})
	}
}
