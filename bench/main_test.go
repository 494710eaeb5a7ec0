package main

import (
	"flag"
	"io"
	"strings"
	"testing"
)

// TestAllPrograms parses the arguments of each run in allPrograms, and checks that
// allPrograms contains every program, but for revisions, which needs an argument.
func TestAllPrograms(t *testing.T) {
	missing := map[string]bool{}
	for name := range programs {
		missing[name] = true
	}
	for _, line := range allPrograms {
		args := strings.Fields(line)
		program := programs[args[0]]
		if program == nil {
			t.Errorf("%s: program not found", line)
			continue
		}
		delete(missing, args[0])
		f := flag.NewFlagSet(args[0], flag.ContinueOnError)
		f.SetOutput(io.Discard)
		program(f)
		if err := f.Parse(args[1:]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	delete(missing, "revisions")
	for name := range missing {
		t.Errorf("allPrograms does not contain %s", name)
	}
}

// TestUnknownProgram runs a program that does not exist.
func TestUnknownProgram(t *testing.T) {
	if err := run([]string{"nope"}); err == nil || !strings.Contains(err.Error(), "find program nope") {
		t.Errorf("run: %v", err)
	}
}
