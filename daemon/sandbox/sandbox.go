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

// ConfineError says that a confined agent's command was not run, for it could
// not be kept away from what is hidden from it.
type ConfineError struct{ Err error }

func (e *ConfineError) Error() string {
	return fmt.Sprintf("bash is not run: this agent is confined, and its commands cannot be kept from the daemon's files here: %v; %s", e.Err, confineRemedy)
}

func (e *ConfineError) Unwrap() error { return e.Err }

// Remedy says what helps on this system.
func (e *ConfineError) Remedy() string { return confineRemedy }

const confineNever = `take bash from confined agents with access = "never" under [tools.bash]`

// Command is a program to run.
type Command struct {
	Path   string   // of the program
	Args   []string // with the program's name
	Env    []string
	Dir    string   // absolute
	Hidden []string // paths that a confined program does not see

	Stdout, Stderr io.Writer // nil discards
}

// Confinable returns nil when commands of confined agents can be run in this
// process, on this machine, and otherwise a *ConfineError.
func Confinable(ctx context.Context) error {
	_, err := Run(ctx, &Command{Dir: "/"})
	return err
}

// resolved returns the paths, absolute with their links followed.
func resolved(paths []string) ([]string, error) {
	var list []string
	for _, p := range paths {
		real, err := vfs.OS{}.Resolve(p)
		if errors.Is(err, fs.ErrPermission) {
			continue // what we may not reach, our commands may not
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		list = append(list, filepath.Clean(real))
	}
	return list, nil
}
