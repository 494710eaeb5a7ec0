package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
)

// sqliteProgram reads SQLite databases. It is part of the release archives.
const sqliteProgram = "crabmem-sqlite"

// sqliteRows runs crabmem-sqlite, next to this program or on PATH, and returns its
// output. Close of the output returns the error that crabmem-sqlite reports.
func (c *app) sqliteRows(ctx context.Context, file string, tables []string) (io.ReadCloser, error) {
	path := findSQLite()
	if path == "" {
		return nil, &cli.Failure{Code: cli.ExitFailure, Kind: "import", Path: file, Err: exec.ErrNotFound,
			Message: file + ": SQLite database: no program " + sqliteProgram + " next to crabmem or on PATH",
			Remedy:  "run go install ./cmd/crabmem-sqlite in the source directory of crabmem, or copy crabmem-sqlite from the release archive next to crabmem"}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{file}, tables...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "HOME"}, strings.ToUpper(name))
	})
	r := &sqliteOutput{cmd: cmd}
	cmd.Stderr = &r.reason
	cmd.WaitDelay = 5 * time.Second
	if r.ReadCloser, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return r, cmd.Start()
}

// findSQLite returns the path of crabmem-sqlite, or "".
func findSQLite() string {
	name := sqliteProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if exe, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(exe), name)); err == nil {
			return path
		}
	}
	path, _ := exec.LookPath(name)
	return path
}

// sqliteOutput is the output of crabmem-sqlite.
type sqliteOutput struct {
	io.ReadCloser
	cmd    *exec.Cmd
	reason boundedBuffer
}

func (r *sqliteOutput) Close() error {
	// This ends a program that still writes. Its remaining output is not needed.
	_ = r.ReadCloser.Close()
	err := r.cmd.Wait()
	if reason := strings.TrimSpace(strings.ToValidUTF8(r.reason.String(), "\uFFFD")); err != nil && reason != "" {
		return errors.New(reason)
	}
	return err
}

// boundedBuffer keeps the first 4 KiB.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), 4<<10-min(b.Len(), 4<<10))])
	return len(p), nil
}
