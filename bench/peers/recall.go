package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"crabmem/crmem/recalleval"
	"crabmem/crmem/vfs"
)

//go:embed recall.py
var recallPy string

// ranker is a search engine whose recall is measured with its usual settings for English
// texts.
type ranker struct {
	name    string
	install string
	// rank returns the version, and for each query of each part the best documents, or
	// errMissing.
	rank func(dir string, parts []part) (version string, ranked [][][]int, err error)
}

var rankers = []ranker{
	{"bleve, en", "", bleveRank},
	{"SQLite FTS5, porter", "install Python with sqlite3", pythonRank("sqlite")},
	{"tantivy, en_stem", "pip install -r bench/peers/requirements.txt", pythonRank("tantivy")},
	{"bm25s, en", "pip install -r bench/peers/requirements.txt", pythonRank("bm25s")},
	{"bm25s, en_plus", "pip install -r bench/peers/requirements.txt", pythonRank("bm25s-plus")},
}

// A part is an index and its queries: a group of a set, or the set.
type part struct {
	Docs    []string `json:"docs"`
	Queries []string `json:"queries"`

	ids    []string // of the documents
	grades []map[string]int
}

// partsOf returns the parts of a set, with the documents in random order: engines order
// equal scores by their places.
func partsOf(s *recalleval.Set) []part {
	byGroup := make(map[string]*part)
	var order []string
	at := func(group string) *part {
		if byGroup[group] == nil {
			byGroup[group] = new(part)
			order = append(order, group)
		}
		return byGroup[group]
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, i := range rng.Perm(len(s.Docs)) {
		d := &s.Docs[i]
		p := at(d.Group)
		p.Docs = append(p.Docs, d.Entry.Name+"\n"+d.Entry.Content)
		p.ids = append(p.ids, d.ID)
	}
	for _, q := range s.Queries {
		p := at(q.Group)
		p.Queries = append(p.Queries, q.Text)
		p.grades = append(p.grades, q.Grades)
	}
	parts := make([]part, len(order))
	for i, group := range order {
		parts[i] = *byGroup[group]
	}
	return parts
}

// ndcg returns the mean nDCG@10 of rankings.
func ndcg(parts []part, ranked [][][]int) (float64, error) {
	sum, n := 0.0, 0
	if len(ranked) != len(parts) {
		return 0, fmt.Errorf("%d rankings, want %d", len(ranked), len(parts))
	}
	for i, p := range parts {
		if len(ranked[i]) != len(p.Queries) {
			return 0, fmt.Errorf("%d rankings of a part, want %d", len(ranked[i]), len(p.Queries))
		}
		for j, list := range ranked[i] {
			names := make([]string, len(list))
			for k, doc := range list {
				if doc < 0 || doc >= len(p.ids) {
					return 0, fmt.Errorf("document %d of %d", doc, len(p.ids))
				}
				names[k] = p.ids[doc]
			}
			score, _ := recalleval.Score(names, p.grades[j])
			sum += score.NDCG10
			n++
		}
	}
	return sum / float64(max(n, 1)), nil
}

// row is the nDCG@10 of an engine by set.
type row struct {
	name    string
	figures []float64
}

func (r *row) mean() float64 {
	sum := 0.0
	for _, f := range r.figures {
		sum += f
	}
	return sum / float64(max(len(r.figures), 1))
}

// compareRecall prints the nDCG@10 of crabmem and of other engines on the test sets of a
// directory.
func compareRecall(root string, require bool, list []ranker) error {
	sources, err := recalleval.Find(vfs.OS{}, root)
	if err != nil {
		return fmt.Errorf("%w: set -datasets to a directory of test sets", err)
	}
	dir, err := os.MkdirTemp("", "crabmem-recall")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "recall.py"), []byte(recallPy), 0o600); err != nil {
		return err
	}
	rows := []row{{name: "crabmem"}}
	var missing []string
	versions := make(map[string]string)
	for _, r := range list {
		rows = append(rows, row{name: r.name})
	}
	var names []string
	for _, source := range sources {
		s, err := source.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) })
		if err != nil {
			return err
		}
		names = append(names, s.Name)
		own, err := recalleval.Run(context.Background(), s, recalleval.Options{})
		if err != nil {
			return err
		}
		rows[0].figures = append(rows[0].figures, own.NDCG10)
		parts := partsOf(s)
		for i, r := range list {
			if slices.Contains(missing, r.name) {
				continue
			}
			version, ranked, err := r.rank(dir, parts)
			if errors.Is(err, errMissing) {
				missing = append(missing, r.name)
				fmt.Printf("SKIPPED %s: %s\n", r.name, r.install)
				continue
			} else if err != nil {
				return fmt.Errorf("measure %s on %s: %w", r.name, s.Name, err)
			}
			f, err := ndcg(parts, ranked)
			if err != nil {
				return fmt.Errorf("measure %s on %s: %w", r.name, s.Name, err)
			}
			rows[i+1].figures = append(rows[i+1].figures, f)
			versions[r.name] = version
		}
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return slices.Contains(missing, r.name) })
	for i := range rows[1:] {
		rows[i+1].name += " " + versions[rows[i+1].name]
	}
	printRecall(os.Stdout, names, rows)
	if require && len(missing) > 0 {
		return fmt.Errorf("find engines: %d missing", len(missing))
	}
	return nil
}

// printRecall prints one table. The best of a column has a star. Below it, each figure that
// is above that of the first row is listed.
func printRecall(w io.Writer, sets []string, rows []row) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "nDCG@10\t"+strings.Join(sets, "\t")+"\tmean\t")
	best := func(at func(*row) float64) (most float64) {
		for i := range rows {
			most = max(most, at(&rows[i]))
		}
		return most
	}
	cell := func(r *row, at func(*row) float64) string {
		star := ""
		if at(r) == best(at) {
			star = "*"
		}
		return fmt.Sprintf("%s%.3f", star, at(r))
	}
	var ahead []string
	for i := range rows {
		r := &rows[i]
		fmt.Fprint(tw, r.name)
		for s := range sets {
			at := func(r *row) float64 { return r.figures[s] }
			fmt.Fprint(tw, "\t"+cell(r, at))
			if d := at(r) - at(&rows[0]); d > 0 {
				ahead = append(ahead, fmt.Sprintf("%s is ahead on %s by %.3f", r.name, sets[s], d))
			}
		}
		fmt.Fprint(tw, "\t"+cell(r, (*row).mean)+"\t\n")
	}
	tw.Flush()
	for _, line := range ahead {
		fmt.Fprintln(w, line)
	}
}

// pythonRank returns the rankings of an engine in recall.py.
func pythonRank(engine string) func(string, []part) (string, [][][]int, error) {
	return func(dir string, parts []part) (string, [][][]int, error) {
		var lines bytes.Buffer
		for i := range parts {
			if err := json.NewEncoder(&lines).Encode(&parts[i]); err != nil {
				return "", nil, err
			}
		}
		input := filepath.Join(dir, "input.jsonl")
		if err := os.WriteFile(input, lines.Bytes(), 0o600); err != nil {
			return "", nil, err
		}
		cmd := exec.Command("python3", filepath.Join(dir, "recall.py"), engine, input)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); errors.Is(err, exec.ErrNotFound) || ok && exit.ExitCode() == missingModule {
			return "", nil, errMissing
		} else if err != nil {
			return "", nil, err
		}
		d := json.NewDecoder(&out)
		var version string
		if err := d.Decode(&version); err != nil {
			return "", nil, err
		}
		ranked := make([][][]int, len(parts))
		for i := range ranked {
			if err := d.Decode(&ranked[i]); err != nil {
				return "", nil, err
			}
		}
		return version, ranked, nil
	}
}
