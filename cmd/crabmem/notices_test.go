package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateNotices = flag.Bool("notices.update", false, "write .github/THIRD_PARTY.md")

// noticesHead precedes the list of modules. It names the data of modules that
// the program contains.
const noticesHead = `# Third-party notices

The programs crabmem and crabmem-sqlite contain the Go runtime and standard
library, the modules below, and their data; only crabmem-sqlite contains SQLite. A
test compares this file with the modules that the programs are built from on Linux,
macOS, and Windows:

` + "```" + `
go test ./cmd/crabmem -run TestThirdPartyNotices                   # compare
go test ./cmd/crabmem -run TestThirdPartyNotices -notices.update   # write
` + "```" + `

## Embedded data

| data | origin | license |
| --- | --- | --- |
| vocabulary of the tokenizer cl100k_base (crmem/budget/cl100k_base.zst) | OpenAI tiktoken, from github.com/tiktoken-go/tokenizer | MIT, Copyright (c) 2022 OpenAI, Shantanu Jain |
| tables of the Russian stemmer | Snowball, in github.com/blevesearch/snowballstem | BSD-3-Clause |
| light stemmers of Arabic and Hindi (bm25/analysis/lightstem.go) | rules of Apache Lucene and bleve | Apache-2.0 |
| Unicode tables | Unicode Character Database, in Go, golang.org/x/text, and github.com/clipperhouse/uax29/v2 | Unicode-3.0 |
| prefixes and lengths of keys (daemon/secret/scan/rules.go) | configuration of gitleaks | MIT |
| time zones | IANA time zone database, in Go (time/tzdata) | public domain |
| HTML entities | HTML standard, in github.com/yuin/goldmark | MIT |
| usual and related English words (bm25/analysis/english.txt) | lemmas and derivations of WordNet 3.0 that are words of cl100k_base; other spellings and short forms are by this project | WordNet license below, MIT |
| English stemmer, irregular words, and stop words; sample brain; prompts; templates | this project | MIT |

## WordNet

WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved.

Permission to use, copy, modify and distribute this software and database and its
documentation for any purpose and without fee or royalty is hereby granted, provided
that you agree to comply with the following copyright notice and statements,
including the disclaimer, and that the same appear on ALL copies of the software,
database and documentation, including modifications that you make for internal use or
for distribution.

THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND PRINCETON UNIVERSITY MAKES NO
REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED. BY WAY OF EXAMPLE, BUT NOT
LIMITATION, PRINCETON UNIVERSITY MAKES NO REPRESENTATIONS OR WARRANTIES OF
MERCHANTABILITY OR FITNESS FOR ANY PARTICULAR PURPOSE OR THAT THE USE OF THE LICENSED
SOFTWARE, DATABASE OR DOCUMENTATION WILL NOT INFRINGE ANY THIRD PARTY PATENTS,
COPYRIGHTS, TRADEMARKS OR OTHER RIGHTS.

The name of Princeton University or Princeton may not be used in advertising or
publicity pertaining to distribution of the software and/or database. Title to
copyright in this software, database and any associated documentation shall at all
times remain with Princeton University and LICENSEE agrees to preserve same.

## Go

The runtime and standard library of Go are under the license of golang.org/x/sys
below: Copyright 2009 The Go Authors.

`

// notedSystems are those that releases are built for.
var notedSystems = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// linkedModules returns the directories of the modules in the programs of a
// release, by path and version.
func linkedModules(t *testing.T) map[string]string {
	dirs := make(map[string]string)
	for _, on := range notedSystems {
		system, arch, _ := strings.Cut(on, "/")
		list := exec.Command("go", "list", "-deps", "-json=Module", ".", "../crabmem-sqlite")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		var diag bytes.Buffer
		list.Stderr = &diag
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v\n%s", on, err, diag.String())
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if m := p.Module; m != nil && !m.Main {
				dirs[m.Path+" "+m.Version] = m.Dir
			}
		}
	}
	return dirs
}

// TestEmbedderModules checks that crmem/DESIGN.md lists each module that package crmem
// needs.
func TestEmbedderModules(t *testing.T) {
	design, err := os.ReadFile("../../crmem/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(design), "## What an embedder pays")
	table, _, _ = strings.Cut(table, "\n## ")
	found := 0
	for _, on := range notedSystems {
		system, arch, _ := strings.Cut(on, "/")
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "../../crmem")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", on, err)
		}
		modules := strings.Fields(string(out))
		slices.Sort(modules)
		for _, m := range slices.Compact(modules) {
			found++
			if m != "crabmem" && !strings.Contains(table, "`"+strings.TrimPrefix(m, "github.com/")+"`") {
				t.Errorf("crmem/DESIGN.md does not list %s, which crmem needs on %s", m, on)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d modules", found)
	}
}

// licenseFile matches the files of a module that a copy must include.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// licensePhrases identify licenses. BSD-2-Clause is part of BSD-3-Clause.
var licensePhrases = []struct{ id, phrase string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"Apache-2.0", "Licensed under the Apache License, Version 2.0"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and distribute"},
	{"BSD-3-Clause", "Neither the name"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
}

// licensesOf returns the licenses that a text contains.
func licensesOf(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var ids []string
	for _, l := range licensePhrases {
		listed := slices.Contains(ids, l.id) || l.id == "BSD-2-Clause" && slices.Contains(ids, "BSD-3-Clause")
		if !listed && strings.Contains(text, l.phrase) {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// notices returns the content of THIRD_PARTY.md: a table of the modules, then
// each text once, with the modules that it belongs to.
func notices(t *testing.T, dirs map[string]string) string {
	var b strings.Builder
	b.WriteString(noticesHead + "## Modules\n\n| module | version | license |\n| --- | --- | --- |\n")
	owners := make(map[string][]string)
	var texts []string
	for _, m := range slices.Sorted(maps.Keys(dirs)) {
		files, err := os.ReadDir(dirs[m])
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		var ids []string
		for _, f := range files {
			if f.IsDir() || !licenseFile.MatchString(f.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dirs[m], f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			s := tidyNotice(string(text))
			ids = append(ids, licensesOf(s)...)
			if owners[s] == nil {
				texts = append(texts, s)
			}
			owners[s] = append(owners[s], m)
		}
		if len(ids) == 0 {
			t.Errorf("%s: found no known license in %s", m, dirs[m])
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		path, version, _ := strings.Cut(m, " ")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", path, version, strings.Join(ids, ", "))
	}
	for _, data := range []struct{ file, owner string }{{"Unicode-3.0.txt", "Unicode tables"}, {"gitleaks.txt", "gitleaks"}} {
		text, err := os.ReadFile(filepath.Join(top, ".github", "licenses", data.file))
		if err != nil {
			t.Fatal(err)
		}
		s := tidyNotice(string(text))
		texts, owners[s] = append(texts, s), []string{data.owner}
	}
	b.WriteString("\n## Texts\n")
	for _, s := range texts {
		fmt.Fprintf(&b, "\n### %s\n\n````text\n%s\n````\n", strings.Join(owners[s], ", "), s)
	}
	return b.String()
}

// tidyNotice removes differences between editors: line ends, and blanks at the
// ends of lines.
func tidyNotice(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// TestThirdPartyNotices compares .github/THIRD_PARTY.md with the modules in the
// program and their licenses.
func TestThirdPartyNotices(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: no go command")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	name := filepath.Join(top, ".github", "THIRD_PARTY.md")
	dirs := linkedModules(t)
	want := notices(t, dirs)
	if *updateNotices {
		if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for m := range dirs {
		if row := "| " + strings.Replace(m, " ", " | ", 1) + " | "; !strings.Contains(string(got), row) {
			t.Errorf("THIRD_PARTY.md does not list %s", m)
		}
	}
	if string(got) != want && !t.Failed() {
		t.Error("THIRD_PARTY.md is not current")
	}
	if t.Failed() {
		t.Log("run: go test ./cmd/crabmem -run TestThirdPartyNotices -notices.update")
	}
}
