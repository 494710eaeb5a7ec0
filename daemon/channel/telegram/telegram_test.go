package telegram

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram/telegramtest"
	"crabmem/daemon/client"
	"crabmem/daemon/daemontest"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/trust"
)

// TestDaemon answers a message over HTTP with a daemon: the person is an untrusted identity
// with a session.
func TestDaemon(t *testing.T) {
	home, err := os.MkdirTemp("", "crab") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	model := modeltest.New(t)
	model.Func(func(q modeltest.Request) modeltest.Reply {
		if fmt.Sprint(q.Tools) != "[ask_user]" {
			t.Errorf("an untrusted identity has the tools %v", q.Tools)
		}
		switch last := q.Messages[len(q.Messages)-1]; {
		case last.Role == "tool":
			return modeltest.Say("got " + last.Content)
		case q.LastUser() == "ask":
			return modeltest.Call("ask_user", `{"questions":[{"question":"Tea?","header":"tea","options":[{"label":"Yes","description":""}]}]}`)
		}
		return modeltest.Say("to " + q.LastUser())
	})
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(daemontest.Config(model.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, _ := daemontest.Serve(t, home)
	api := telegramtest.New(func(err error) { t.Error(err) })
	server := httptest.NewServer(api)
	defer server.Close()
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // until cancel
		ended <- channel.Run(ctx, channel.Options{FS: vfs.OS{}, Home: home, Log: log, Now: time.Now, Session: func(string, bool) channel.Boundary { return channel.Boundary{} }, Allowed: func() []string { return []string{"7"} }, Level: trust.Rules(nil).Level, Daemon: func(identity string) (op.Caller, func()) {
			d := &client.Client{Addr: addr, Header: op.Header{As: identity}}
			return d, func() { _ = d.Close() }
		}}, New(&Config{Token: telegramtest.Token, PollTimeout: 30, API: server.URL}, log, nil))
	}()
	api.Text(7, "/new")
	api.Text(7, "hello")
	gate.Until(t, "answers", func() bool { return api.Unconfirmed() == 0 && len(api.Sent()) == 3 })
	api.Text(7, "ask")
	gate.Until(t, "a question", func() bool {
		f, err := box.Load(vfs.OS{}, home, "tg:7", time.Now)
		return err == nil && len(f.Questions) > 0 && f.Questions[0].State == box.Asked // a text is an answer from now on
	})
	api.Text(7, "please")
	gate.Until(t, "an answer", func() bool { return len(api.Sent()) == 5 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(api.Sent()[3].Text, "|", api.Sent()[4].Text); got != "Tea?|got please" { // an untrusted identity gets no options
		t.Errorf("sent %q", got)
	}
	if got := fmt.Sprint(api.Sent()[1].Text, "|", api.Sent()[2].Text); got != "This is a new session: crab_tg-7_1|to hello" {
		t.Errorf("sent %q", got)
	}
	list, err := op.ListSessions.Do(t.Context(), &client.Client{Addr: addr}, op.SessionFilter{})
	if err != nil || len(list.Items) != 1 || list.Items[0].CreatedBy != "tg:7" {
		t.Errorf("sessions %+v, %v", list.Items, err)
	}
}

// TestReadConfig reads the configuration, also the one of the reference, and refuses others
// without the token in the error.
func TestReadConfig(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, File)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	read := func(text string, mode os.FileMode) (Config, error) {
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return ReadConfig(vfs.OS{}, home, func(name string) (string, error) {
			if name != "telegram" {
				return "", errors.New("no secret " + name)
			}
			return telegramtest.Token, nil
		})
	}
	token := `token = "` + telegramtest.Token + `"` + "\n"
	for _, text := range []string{token + "allowed_users = [7, 4503599627370495]", `token = "secret:telegram"` + "\nallowed_users = [7, 8]\nsession = \"idle 8h\"\npoll_timeout = 5"} {
		c, err := read(text, 0o600)
		if err != nil || c.Token != telegramtest.Token || len(c.Allowed()) != 2 || c.Allowed()[0] != "7" || c.API != "https://api.telegram.org" {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	groups := token + "[[groups]]\nid = -7\nsenders = \"all\"\ncontext = \"all\"\ntopics = [0, 5]\n[[routes]]\nagent = \"a\"\n[[routes]]\nchat = -7\ntopic = 5\nagent = \"b\""
	if c, err := read(groups, 0o600); err != nil || len(c.Groups) != 1 || c.agent(-7, 5) != "b" || c.agent(-7, 6) != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"":                             "token is not set",
		"token = \"planted\"":          "as 123456:ABC-DEF",
		"token = \"1:planted/../x\"":   "as 123456:ABC-DEF",
		"token = \"secret:other\"":     "no secret other",
		token + "allowed_users = [-7]": "-7 is not the ID of a user",
		token + "allowed_users = [" + strings.Repeat("1,", 1001) + "]": "1001 users",
		token + "poll_timeout = 0":                                     "want 1 to 300",
		token + "format = \"x\"":                                       "want plain or html",
		token + "streaming = \"x\"":                                    "want draft, edit, or off",
		token + "session = \"hourly\"":                                 `"hourly"`,
		token + "api = \"ftp://x\"":                                    "api = ",
		token + "[[groups]]\nid = 7":                                   "want the ID of a group",
		token + "[[groups]]\nid = -7\n[[groups]]\nid = -7":             "-7 is repeated",
		token + "[[groups]]\nid = -7\nsenders = \"users\"":             `want "all"`,
		token + "[[groups]]\nid = -7\ncontext = \"x\"":                 `want "all"`,
		token + "[[groups]]\nid = -7\ntopics = [-1]":                   "topics of -7",
		token + "[[groups]]\nid = -7\nmembers = 1":                     "unknown key",
		token + "[[routes]]\nchat = 7":                                 "agent is not set",
		token + "[[routes]]\ntopic = 7\nagent = \"a\"":                 "without chat",
		token + strings.Repeat("[[routes]]\nagent = \"a\"\n", 2):       "is repeated",
		token + strings.Repeat("[[routes]]\n", 1001):                   "1001 tables",
		token + "chats = [7]":                                          "telegram.toml:2: unknown key chats",
		token + "allowed_users = \"7\"":                                "telegram.toml:2",
	} {
		if _, err := read(text, 0o600); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := read(token, 0o666); err == nil || errtable.Find(err).Exit != errtable.ExitPermission {
		t.Errorf("a file that others can change: %v", err)
	}
}
