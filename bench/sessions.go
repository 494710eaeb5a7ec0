package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"crabmem/bench/measure"
	"crabmem/sessionlog"
)

// sessions measures package sessionlog against alternatives. With -large it also
// makes a file of 1 GB and an index of a million messages.
func sessions(f *flag.FlagSet) func(*measure.Limits) error {
	dir := f.String("dir", "", "write to this `directory`, with a real sync; default: a temporary directory")
	large := f.Bool("large", false, "measure a file of 1 GB and a million messages, too")
	return func(t *measure.Limits) error {
		return inTemp(*dir, func(dir string) error {
			for i, f := range []func(*measure.Limits, string, bool) error{appends, contexts, searches, lists} {
				sub := filepath.Join(dir, fmt.Sprint(i))
				if err := os.Mkdir(sub, 0o700); err != nil {
					return err
				}
				if err := f(t, sub, *large); err != nil {
					return err
				}
				if err := os.RemoveAll(sub); err != nil {
					return err
				}
				fmt.Println()
			}
			return nil
		})
	}
}

// session creates a session.
func session(dir string, o *sessionlog.Options) (*sessionlog.Dir, *sessionlog.Log, error) {
	d, err := sessionlog.OpenDir(dir, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	return d, l, err
}
