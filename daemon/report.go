package daemon

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/wire/pb"
)

// DumpAnswer is what crabmem dump --json prints.
type DumpAnswer struct {
	Dir       string   `json:"dir"`
	Entries   int      `json:"entries"`
	Unchanged int      `json:"unchanged"`
	Written   []string `json:"written"`
	Deleted   []string `json:"deleted"`
	Aside     []string `json:"aside"`
	Seeded    bool     `json:"seeded"`
	DryRun    bool     `json:"dry_run"`
}

// Dumped makes the answer of a report.
func Dumped(r crmem.DumpReport, dry bool) DumpAnswer {
	return DumpAnswer{r.Dir, r.Entries, r.Unchanged, some(r.Written), some(r.Deleted), some(r.Aside), r.Seeded, dry}
}

// LoadAnswer is what crabmem load --json prints, and the details of its
// conflicts.
type LoadAnswer struct {
	Dir       string         `json:"dir"`
	Dumped    bool           `json:"dumped"` // a dump wrote the tree
	Pages     int            `json:"pages"`
	Added     []string       `json:"added"`
	Changed   []string       `json:"changed"`
	Removed   []string       `json:"removed"`
	Kept      int            `json:"kept"`
	Conflicts []LoadConflict `json:"conflicts"`
	Warnings  []string       `json:"warnings"`
	DryRun    bool           `json:"dry_run"`
}

// LoadConflict is an entry that tree and store changed in different ways.
type LoadConflict struct {
	Name string `json:"name"`
	Page string `json:"page"` // the tree's text
	File string `json:"file"` // the store's text
}

// Loaded makes the answer of a report.
func Loaded(r crmem.LoadReport, dry bool) LoadAnswer {
	a := LoadAnswer{r.Dir, r.Dumped, r.Pages, some(r.Added), some(r.Changed), some(r.Removed), r.Kept, []LoadConflict{}, some(r.Warnings), dry}
	for _, k := range r.Conflicts {
		a.Conflicts = append(a.Conflicts, LoadConflict{k.Name, k.Page, k.File})
	}
	return a
}

// Report is the report that an answer was made of, without the texts of its
// conflicts.
func (a *LoadAnswer) Report() crmem.LoadReport {
	r := crmem.LoadReport{Dir: a.Dir, Dumped: a.Dumped, Pages: a.Pages, Added: a.Added, Changed: a.Changed, Removed: a.Removed,
		Kept: a.Kept, Warnings: a.Warnings}
	for _, k := range a.Conflicts {
		r.Conflicts = append(r.Conflicts, crmem.Conflict{Name: k.Name, Page: k.Page, File: k.File})
	}
	return r
}

// StatsAnswer is what crabmem stats --json prints of the store.
type StatsAnswer struct {
	Path string `json:"path"`
	crmem.Stats
	Index *IndexAnswer `json:"index,omitempty"`
}

// IndexAnswer is the size of the search index, and what building it took.
type IndexAnswer struct {
	Bytes    int64   `json:"bytes"`
	Terms    int     `json:"terms"`
	Postings int     `json:"postings"`
	Seconds  float64 `json:"build_seconds"`
}

// some is a list that JSON writes as an array.
func some(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// encode is JSON as the commands write it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// report answers with what a command prints.
func (r *request) report(v any, warnings []string) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Report{Report: &pb.Report{Json: b, Warnings: warnings}}})
}

// progressEvery is how often a client is told how far something is.
const progressEvery = 100 * time.Millisecond

// progress returns a function that tells the client how far something is, if it
// wants to know.
func (r *request) progress(wanted bool, label string) func(done, total int) {
	if !wanted {
		return nil
	}
	var mu sync.Mutex // it may be called by several goroutines
	var last time.Time
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			// What ends the connection ends the request too.
			_ = r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Progress{Progress: &pb.Progress{
				Label: label, Done: uint64(max(done, 0)), Total: uint64(max(total, 0))}}})
		}
	}
}

// lines tells the client what is about to happen.
func (r *request) lines(label string, list []string) error {
	for size, from, i := 0, 0, 0; ; i++ {
		if i < len(list) && size < partSize {
			size += len(list[i])
			continue
		}
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Progress{Progress: &pb.Progress{Label: label, Lines: list[from:i]}}}); err != nil {
			return err
		}
		if i == len(list) {
			return nil
		}
		size, from = len(list[i]), i
	}
}
