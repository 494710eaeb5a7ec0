// Bench measures crabmem and prints each figure with its limit:
//
//	go run ./bench                    run all programs, each in its own process
//	go run ./bench index [-standard]  measure package bm25 against bleve
//	go run ./bench recall             measure the queries of test sets
//	go run ./bench store              measure package crmem against raw system calls
//	go run ./bench commands           measure commands as complete processes
//	go run ./bench changes            measure the history of package crmem
//	go run ./bench sessions [-large]  measure package sessionlog
//	go run ./bench ping               measure the daemon's protocol against an echo
//	go run ./bench daemon             measure the daemon in a separate process
//	go run ./bench gateway            measure the gateway in a separate process
//	go run ./bench revisions -base R  compare requests with those of an earlier revision
//
// With -gate the exit code is 1 if a figure misses its limit. -h lists the flags of a
// program. Absolute times vary on a shared machine. So most figures are CPU times, or
// ratios of two times that the program measures in turns. The program in peers
// compares package bm25 with engines that are not Go modules.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"crabmem/bench/measure"
)

// programs contains the programs by name. A program defines its flags in the set and
// returns the measurement.
var programs = map[string]func(*flag.FlagSet) func(*measure.Limits) error{
	"index": index, "recall": queries, "store": store, "commands": commands, "changes": changesOf, "sessions": sessions, "ping": ping, "daemon": daemons, "gateway": gateways,
	"revisions": revisions,
}

// allPrograms lists the programs, with arguments, that bench runs by default.
var allPrograms = []string{"index", "index -standard", "recall", "store", "commands", "changes", "sessions", "ping", "daemon", "gateway"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	gate := f.Bool("gate", false, "exit with 1 if a figure misses its limit")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		_ = f.Parse(args) // exits on an error
		return runAll(*gate)
	}
	program := programs[args[0]]
	if program == nil {
		return fmt.Errorf("find program %s: want one of %s", args[0], strings.Join(allPrograms, ", "))
	}
	measured := program(f)
	_ = f.Parse(args[1:])
	l := &measure.Limits{}
	if err := measured(l); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return l.Verdict(*gate)
}

// runAll runs each program in a separate process. It continues after a failure.
func runAll(gate bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range allPrograms {
		args := strings.Fields(name)
		if gate {
			args = append(args, "-gate")
		}
		cmd := exec.Command(self, args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		fmt.Printf("\n== bench %s\n", name)
		if err := cmd.Run(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// inTemp calls do with a new directory in dir and then removes the new directory.
func inTemp(dir string, do func(dir string) error) error {
	dir, err := os.MkdirTemp(dir, "crabmem-bench")
	if err != nil {
		return err
	}
	return errors.Join(do(dir), os.RemoveAll(dir))
}

// buildCommand builds the command crabmem in dir.
func buildCommand(dir string) (string, error) {
	exe := filepath.Join(dir, "crabmem")
	if out, err := exec.Command("go", "build", "-o", exe, "crabmem/cmd/crabmem").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return exe, nil
}
