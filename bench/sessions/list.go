package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog"
)

// lists has the command list 50,000 sessions.
func lists(t *measure.Limits, dir string, _ bool) error {
	const n = 50_000
	home := filepath.Join(dir, "home")
	folder := filepath.Join(home, "sessions")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	z := corpus.NewZipf(4)
	for s := range n {
		b := sessionlog.AppendMeta(nil, &sessionlog.Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Title: fmt.Sprint("session ", s)})
		for i := range 4 {
			b = sessionlog.AppendMessage(b, &sessionlog.Message{Role: sessionlog.RoleUser, Content: z.Doc(s*4 + i)})
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("crab_user_%d.jsonl", s+1)), b, 0o600); err != nil {
			return err
		}
	}
	bin := filepath.Join(dir, "crabmem")
	if out, err := exec.Command("go", "build", "-o", bin, "crabmem/cmd/crabmem").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	best, err := measure.Fastest(5, func() error {
		out, err := exec.Command(bin, "--home", home, "sessions", "list", "--json").Output()
		if err == nil && len(out) < n*100 {
			err = fmt.Errorf("a list of %d bytes", len(out))
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("sessions list of %d: %v\n", n, best[0])
	t.Most("sessions list of 50,000, warm", best[0].Seconds(), 1, "s")
	return nil
}
