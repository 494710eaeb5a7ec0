package telegram_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/channel/telegram/telegramtest"
)

// TestAiogram runs an unchanged bot of another library against the fake Bot API, which so
// accepts what a real one does.
//
//	CRABMEM_AIOGRAM=PYTHON   a Python with aiogram
func TestAiogram(t *testing.T) {
	python := os.Getenv("CRABMEM_AIOGRAM")
	if python == "" {
		t.Skip("SKIPPED: CRABMEM_AIOGRAM does not name a Python with aiogram")
	}
	api := telegramtest.New(func(err error) { t.Errorf("bot: %v", err) })
	api.Other = true
	server := httptest.NewServer(api)
	defer server.Close()
	defer server.CloseClientConnections()
	cmd := exec.CommandContext(t.Context(), python, "testdata/aiogram_echo.py", server.URL, telegramtest.Token)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it is killed
	defer cmd.Process.Kill()
	for i := range 20 {
		api.Text(7, fmt.Sprint("text ", i))
	}
	gate.Until(t, "20 answers and no update", func() bool { return len(api.Sent()) == 20 && api.Unconfirmed() == 0 })
	seen := make(map[string]bool)
	for _, s := range api.Sent() {
		seen[s.Text] = s.Chat == 7
	}
	for i := range 20 {
		if !seen[fmt.Sprint("text ", i)] {
			t.Errorf("text %d has no answer", i)
		}
	}
}
