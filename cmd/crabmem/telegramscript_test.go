package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crabmem/bench/gate"
	"crabmem/daemon/channel/telegram/telegramtest"

	"github.com/rogpeppe/go-internal/testscript"
)

// telegramKey is the key of a script's bot.
const telegramKey = "telegram"

type scriptBot struct{ *telegramtest.API }

// scriptTelegram serves a Bot API until the script ends, and writes its configuration. The
// file telegram.log contains what the bot sends.
func scriptTelegram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: telegram CONFIG")
	}
	api := telegramtest.New(func(err error) { fmt.Fprintf(os.Stderr, "telegram: %v\n", err); os.Exit(1) })
	log := ts.MkAbs("telegram.log")
	write := func() {
		var b strings.Builder
		for _, s := range api.Sent() {
			fmt.Fprintf(&b, "%d: %s\n", s.Chat, s.Text)
		}
		if err := os.WriteFile(log, []byte(b.String()), 0o600); err != nil {
			api.Fail(err)
		}
	}
	api.Do = func(method string) {
		if strings.HasPrefix(method, "send") || strings.HasPrefix(method, "edit") {
			write()
		}
	}
	write()
	server := httptest.NewServer(api)
	ts.Defer(func() { server.CloseClientConnections(); server.Close() })
	ts.Setenv("TELEGRAM_URL", server.URL)
	text := strings.NewReplacer("API", server.URL, "TOKEN", telegramtest.Token).Replace(ts.ReadFile(args[0]))
	dir := filepath.Join(ts.Getenv("HOME"), ".crabtalk", "config")
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(os.WriteFile(filepath.Join(dir, "telegram.toml"), []byte(text), 0o600))
	ts.Value(telegramKey).(*scriptBot).API = api
}

// scriptSay sends a person's text, or that of @FILE, to the bot.
func scriptSay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: say USER TEXT...")
	}
	user, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	text := strings.Join(args[1:], " ")
	if file, ok := strings.CutPrefix(text, "@"); ok {
		text = strings.TrimSpace(ts.ReadFile(file))
	}
	ts.Value(telegramKey).(*scriptBot).Text(user, text)
}

// scriptPhotos sends an album of N photos, the first with a caption, or a voice message without a
// text if N is 0.
func scriptPhotos(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: photos USER N CAPTION...")
	}
	user, uerr := strconv.ParseInt(args[0], 10, 64)
	n, err := strconv.Atoi(args[1])
	ts.Check(errors.Join(uerr, err))
	api := ts.Value(telegramKey).(*scriptBot)
	message := func(fields map[string]any) {
		fields["from"], fields["chat"] = map[string]any{"id": user}, map[string]any{"id": user, "type": "private"}
		api.Message(fields)
	}
	if n == 0 {
		message(map[string]any{"voice": map[string]any{"file_id": "v", "duration": 3, "file_size": 9000}})
	}
	for i := range n {
		photo := map[string]any{"media_group_id": "album", "photo": []any{map[string]any{"file_id": fmt.Sprint("p", i), "file_size": 1000 * (i + 1)}}}
		if i == 0 {
			photo["caption"] = strings.Join(args[2:], " ")
		}
		message(photo)
	}
}

// scriptPress presses the newest button whose label contains a text, when there is one.
func scriptPress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: press USER LABEL...")
	}
	user, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	api, label := ts.Value(telegramKey).(*scriptBot), strings.Join(args[1:], " ")
	gate.Until(ts, "a button "+label, func() bool {
		for _, m := range slices.Backward(api.Sent()) {
			for _, b := range m.Buttons {
				if m.Chat == user && strings.Contains(b.Label, label) {
					return api.Press(user, m.ID, b.Data) != 0
				}
			}
		}
		return false
	})
}
