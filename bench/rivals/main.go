//go:build linux

// rivals measures crabmem and other memories for agents, side by side.
//
// Usage:
//
//	bench/rivals/run.sh DIR            install the programs into DIR, and run all rows
//	go run ./bench/rivals -tools DIR   run all rows with the programs in DIR
//
// Each program runs as an agent runs it, with an empty home directory, and without a
// network, a language model, or an API key. See README.md for the results.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	tools := flag.String("tools", "", "use the programs in this `directory`, which run.sh made")
	only := flag.String("systems", "", "measure only the `systems` whose names contain one of these words, as engram,mem0")
	ids := flag.String("rows", "", "measure only these `rows`: size, kill, both, recall, history, files, damage")
	flag.Parse()
	dir, err := filepath.Abs(*tools)
	if *tools == "" || flag.NArg() > 0 || err != nil {
		flag.Usage()
		os.Exit(2)
	}
	for _, r := range rows {
		if !selected(*ids, r.id) {
			continue
		}
		fmt.Printf("\n## %s\n\n| system | version | result |\n| --- | --- | --- |\n", r.title)
		for _, s := range systems(dir) {
			if selected(*only, strings.ToLower(s.name)) {
				fmt.Printf("| %s | %s | %s |\n", s.name, s.version(), measure(&r, &s))
			}
		}
	}
}

// selected reports whether a list of words, separated by commas, selects a name.
func selected(list, name string) bool {
	for word := range strings.SplitSeq(list, ",") {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// measure returns one cell. An error is a result, too.
func measure(r *row, s *system) string {
	dir, err := os.MkdirTemp("", "rivals-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	text, err := r.cell(s, dir)
	if err != nil {
		text = "error: " + short(err.Error())
	}
	return strings.ReplaceAll(text, "|", "\\|")
}
