package channel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/channel"
)

// open opens a pairing, and returns its code.
func (r *rig) open() string {
	r.t.Helper()
	code, err := channel.Pair(r.m, home, "telegram", []byte(`{"trust":"trusted"}`), time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return code
}

// isOpen reports whether a pairing is open.
func (r *rig) isOpen() bool {
	_, err := r.m.Lstat(home + "/run/pair-telegram.json")
	return err == nil
}

// TestPair: who sends the code becomes a user, once, and learns what it may do. The code is not
// in the files of conversations, and no agent reads it.
func TestPair(t *testing.T) {
	for _, form := range []string{"%s", "/start %s", " /start  %s\n", "lower %s"} {
		t.Run(form, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.ignores = true
				code := r.open()
				if form == "lower %s" {
					code, form = strings.ToLower(strings.ReplaceAll(code, "-", "")), "%s"
				}
				r.start()
				r.api.Text(9, "hello")
				r.want()
				r.api.Text(9, fmt.Sprintf(form, code))
				if sent := r.sent(); len(sent) != 1 || !strings.HasSuffix(sent[0], "You are tg:9.") {
					t.Fatalf("sent %q", sent)
				}
				r.api.Text(9, "hello")
				r.api.Text(10, code)
				r.restart()
				r.api.Text(9, "again")
				if sent := r.sent(); len(sent) != 3 || sent[2] != "AGAIN" {
					t.Errorf("sent %q", sent)
				}
				r.lines("crab_tg-9_1: hello", "crab_tg-9_1: again")
				if r.rule != `{"trust":"trusted"}` || r.isOpen() {
					t.Errorf("rule %s, open %t", r.rule, r.isOpen())
				}
				for _, f := range files(r.m) {
					if strings.Contains(strings.ToUpper(fmt.Sprint(f)), strings.ToUpper(code)) {
						t.Errorf("the file contains the code: %v", f)
					}
				}
			})
		})
	}
}

// TestPairTries: three wrong codes close a pairing, also over restarts. Other messages of
// strangers take no try.
func TestPairTries(t *testing.T) {
	for wrong := range 4 {
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.ignores = true
				code := r.open()
				r.start()
				for i := range wrong {
					r.api.Text(9, "hello there")
					r.api.Text(9, fmt.Sprintf("%04d-XXXX", i))
					r.want()
					r.restart()
				}
				r.api.Text(9, code)
				if got := len(r.sent()) == 1; got != (wrong < 3) {
					t.Errorf("after %d wrong codes the code works: %t", wrong, got)
				}
			})
		})
	}
}

// TestPairEnds: a code holds for 10 minutes, only the newest one, and only in a private chat.
func TestPairEnds(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		first := r.open()
		code := r.open()
		r.start()
		r.api.Text(9, first)
		r.want()
		r.api.Message(map[string]any{"from": map[string]any{"id": int64(9)}, "chat": map[string]any{"id": int64(-100), "type": "supergroup"}, "text": code})
		r.want()
		time.Sleep(channel.PairTime)
		r.api.Text(9, code)
		r.want()
		if r.isOpen() {
			t.Error("the pairing is open")
		}
	})
}

// TestPairFails: a pairing that cannot be written remains open.
func TestPairFails(t *testing.T) {
	bubble(t, func(r *rig) {
		r.ignores = true
		code := r.open()
		r.refuse = errors.New("config.toml is invalid")
		r.start()
		r.api.Text(9, code)
		r.want()
		r.refuse = nil
		r.api.Text(9, code)
		if len(r.sent()) != 1 {
			t.Errorf("sent %q", r.sent())
		}
	})
}
