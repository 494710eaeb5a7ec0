package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog/record"
)

// lists has the command list 50,000 sessions.
func lists(t *measure.Limits, dir string, _ bool) error {
	const n = 50_000
	home := filepath.Join(dir, "home")
	if err := writeSessions(filepath.Join(home, "sessions"), n, 4, corpus.NewZipf(4).Doc, record.RoleUser); err != nil {
		return err
	}
	bin, err := buildCommand(dir)
	if err != nil {
		return err
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
