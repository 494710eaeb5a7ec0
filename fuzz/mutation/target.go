package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// target is a package to change, and the packages whose tests run. The first
// contains the tests of the package itself. A regular expression after a colon limits the tests of a
// package.
type target struct {
	pattern string
	tests   []string
}

var (
	storeTests   = []string{"./crmem", "./crmem/tree", "./crmem/vfs", "./fuzz/ops", "./fuzz/log", "./fuzz/recover", "./fuzz/snapshot", "./fuzz/frame", "./fuzz/refdec", "./fuzz/tree", "./fuzz/crash", "./fuzz/displaced"}
	sessionTests = []string{"./sessionlog", "./fuzz/sessionref", "./fuzz/sessioncrash"}
)

var targets = []target{
	{"./crmem", storeTests},
	{"./crmem/internal/format", append([]string{"./crmem/internal/format"}, storeTests...)},
	{"./crmem/history", []string{"./crmem/history", "./crmem"}},
	{"./crmem/inspect", []string{"./crmem/inspect", "./fuzz/snapshot"}},
	{"./crmem/repair", []string{"./crmem/repair", "./crmem", "./fuzz/corrupt"}},
	{"./crmem/tree", []string{"./crmem/tree", "./fuzz/tree", "./crmem:ReportsOf"}},
	{"./crmem/vfs", []string{"./crmem/vfs", "./crmem", "./fuzz/crash", "./fuzz/sessioncrash", "./fuzz/displaced"}},
	{"./crmem/vfs/faultfs", []string{"./crmem/vfs", "./crmem", "./fuzz/crash", "./fuzz/sessioncrash"}},
	{"./bm25/analysis", []string{"./bm25/analysis", "./bm25", "./fuzz/index"}},
	{"./bm25", []string{"./bm25", "./fuzz/index", "./crmem:Recall|Search|Syntax|Explain|Correct"}},
	{"./sessionlog", sessionTests},
	{"./sessionlog/search", []string{"./sessionlog/search", "./sessionlog"}},
	{"./sessionlog/record", []string{"./sessionlog/record"}},
	{"./sessionlog/internal/line", append([]string{"./sessionlog/internal/line"}, sessionTests...)},
	{"./daemon/wire", []string{"./daemon/wire", "./daemon/client", "./daemon"}},
	{"./daemon/session", []string{"./daemon/session", "./daemon"}},
	{"./daemon/agent", []string{"./daemon/agent", "./daemon"}},
	{"./daemon/tool", []string{"./daemon/tool", "./daemon/agent", "./daemon"}},
	{"./daemon/sandbox", []string{"./daemon/sandbox", "./daemon/tool"}},
	{"./daemon/mcp", []string{"./daemon/mcp", "./daemon"}},
	{"./daemon/skill", []string{"./daemon/skill", "./fuzz/skill", "./daemon"}},
	{"./daemon/approval", []string{"./daemon/approval"}},
	{"./daemon/space", []string{"./daemon/space", "./fuzz/spacecrash", "./daemon"}},
	{"./daemon/trust", []string{"./daemon/trust", "./daemon"}},
	{"./daemon/cron", []string{"./daemon/cron", "./daemon"}},
}

// sourceTests lists tests that check the sources and not the program.
var sourceTests = []string{"TestMutants"}

// choose returns the targets in names, or all targets if names is empty. If draw is
// positive, it chooses that many of them with the seed.
func choose(targets []target, names string, draw int, seed uint64) ([]target, error) {
	targets = slices.Clone(targets)
	if names != "" {
		var chosen []target
		for name := range strings.SplitSeq(names, ",") {
			i := slices.IndexFunc(targets, func(t target) bool { return strings.TrimPrefix(t.pattern, "./") == strings.TrimPrefix(name, "./") })
			if i < 0 {
				return nil, fmt.Errorf("find package %s: not a target", name)
			}
			chosen = append(chosen, targets[i])
		}
		targets = chosen
	}
	if draw > 0 && draw < len(targets) {
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		targets = targets[:draw]
	}
	return targets, nil
}
