// Package sandbox runs the commands of confined agents. A command does not see
// the files and directories that it must not, and cannot gain privileges or
// reach the daemon's sockets. Only Linux supports it.
//
// [Main] must be the first call of a program that uses [Run].
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// Error reports that a command was not run because the machine or the program
// cannot confine it.
type Error struct{ Err error }

func (e *Error) Error() string {
	return fmt.Sprintf("confine command: %v; %s", e.Err, remedy)
}

func (e *Error) Unwrap() error { return e.Err }

// Remedy returns the fix for this system.
func (e *Error) Remedy() string { return remedy }

const removeBash = `remove bash from confined agents: set access = "never" under [tools.bash]`

// Command is a program to run.
type Command struct {
	Path   string   // of the program
	Args   []string // with the program's name
	Env    []string
	Dir    string   // absolute
	Hidden []string // paths that a confined program does not see

	// View selects the read-only profile if it is not empty: the program sees the
	// system's programs and libraries, and this directory without Hidden. It changes
	// no file, and has no network.
	View string

	Stdin          io.Reader // nil is empty
	Stdout, Stderr io.Writer // nil discards; equal writers share one stream
}

// Check returns an *Error if this process cannot confine commands on this
// machine.
func Check(ctx context.Context) error {
	_, err := Run(ctx, &Command{Dir: "/"}) // no program to start
	return err
}

// CheckView returns an *Error if this process cannot run programs in the read-only
// profile on this machine.
func CheckView(ctx context.Context) error {
	_, err := Run(ctx, &Command{Dir: "/usr", View: "/usr"})
	return err
}

// resolved returns the absolute paths with all links followed. It omits paths
// that this user cannot reach: a command cannot reach them either.
func resolved(fsys vfs.FS, paths []string) ([]string, error) {
	var list []string
	for _, p := range paths {
		real, err := fsys.Resolve(p)
		if errors.Is(err, fs.ErrPermission) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		list = append(list, filepath.Clean(real))
	}
	return list, nil
}
