package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"crabmem/fuzz/mutation/weave"
)

// equivalent is a mutant that no test can detect.
type equivalent struct {
	weave.Key
	Reason   string `json:"reason"`
	Reviewed bool   `json:"reviewed"` // a second person confirmed the reason
}

// readEquivalents reads the list. An entry of a loaded package is stale if it
// matches no mutant.
func (p *plan) readEquivalents(all []*weave.Mutant) error {
	p.equivalents = map[weave.Key]*equivalent{}
	b, err := os.ReadFile(p.config.equivalents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var listed []*equivalent
	if err := json.Unmarshal(b, &listed); err != nil {
		return fmt.Errorf("parse %s: %w", p.config.equivalents, err)
	}
	exist := map[weave.Key]bool{}
	for _, m := range all {
		exist[m.Key()] = true
	}
	for _, e := range listed {
		if e.Reason == "" || p.equivalents[e.Key] != nil {
			return fmt.Errorf("parse %s: %s: %q has no reason, or is listed twice", p.config.equivalents, e.File, e.Old)
		}
		p.equivalents[e.Key] = e
		if !exist[e.Key] && p.has(e.File) {
			p.stale = append(p.stale, e)
		}
	}
	return nil
}

// has reports whether a file belongs to a target.
func (p *plan) has(file string) bool {
	dir := "./" + file[:max(0, strings.LastIndexByte(file, '/'))]
	return slices.ContainsFunc(p.targets, func(t target) bool { return t.pattern == dir })
}
