package recalleval

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem"
)

// Open opens a file for reading. Its errors name the file.
type Open func(name string) (io.ReadCloser, error)

// maxLine limits a line: a content of the maximum size, each byte an escape of
// six bytes, and the other keys.
const maxLine = 6*crmem.MaxContent + 1<<20

// created is the creation time of every document, so that age does not affect
// ranking.
const created = 1_700_000_000

// Corpus and Queries are the names of two of the files of a folder.
const (
	Corpus  = "corpus.jsonl"
	Queries = "queries.jsonl"
)

// Load reads the folder dir in the format of BEIR: corpus.jsonl with _id,
// title, text and metadata.group, queries.jsonl with _id, text,
// metadata.group and metadata.category, and judgments in qrels.tsv or qrels/test.tsv. The set has the
// folder's name.
//
// A document becomes a note: the title becomes the name, the text the content.
// An untitled document, and a document whose title is not unique, gets a suffix
// that no analyzer indexes. A query without a group gets the group of its
// relevant documents.
func Load(open Open, dir string) (*Set, error) {
	s := &Set{Name: filepath.Base(filepath.Clean(dir))}
	seen := make(map[string]bool)
	err := records(open, filepath.Join(dir, Corpus), func(r record) error {
		if seen[r.ID] {
			return fmt.Errorf("duplicate document %q", r.ID)
		}
		seen[r.ID] = true
		s.Docs = append(s.Docs, Doc{r.ID, r.Group, crmem.Entry{Name: r.Title, Content: r.Text, CreatedAt: created}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(s.Docs) == 0 {
		return nil, fmt.Errorf("%s: no documents", filepath.Join(dir, Corpus))
	}
	s.enter()
	var queries []Query
	clear(seen)
	err = records(open, filepath.Join(dir, Queries), func(r record) error {
		if seen[r.ID] {
			return fmt.Errorf("duplicate query %q", r.ID)
		}
		seen[r.ID] = true
		queries = append(queries, Query{ID: r.ID, Text: r.Text, Group: r.Group, Category: r.Category})
		return nil
	})
	if err != nil {
		return nil, err
	}
	qrels, err := readQrels(open, dir)
	if err != nil {
		return nil, err
	}
	return s, s.judge(queries, qrels)
}

// enter gives the documents, in ascending order of their ids, the ids and the
// names of entries: the store breaks ties by the one, and wants the other to
// be unique.
func (s *Set) enter() {
	slices.SortFunc(s.Docs, func(a, b Doc) int { return cmp.Compare(a.ID, b.ID) })
	titles := make(map[string]int)
	for _, d := range s.Docs {
		titles[d.Entry.Name]++
	}
	for i := range s.Docs {
		e := &s.Docs[i].Entry
		e.ID = uint64(i + 1)
		if strings.TrimSpace(e.Name) == "" {
			e.Name = mark(i)
		} else if titles[e.Name] > 1 {
			e.Name += " " + mark(i)
		}
	}
}

// mark writes a number in parentheses: they are part of no word.
func mark(n int) string {
	return strings.NewReplacer("0", "(", "1", ")").Replace(strconv.FormatInt(int64(n), 2))
}

// record is a line of corpus.jsonl or queries.jsonl.
type record struct{ ID, Title, Text, Group, Category string }

// records calls f with the lines of a file.
func records(open Open, name string, f func(record) error) error {
	return eachLine(open, name, func(_ int, line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		var v struct {
			ID       label  `json:"_id"`
			Title    string `json:"title"`
			Text     string `json:"text"`
			Metadata struct {
				Group    label `json:"group"`
				Category label `json:"category"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if v.ID == "" {
			return errors.New("no _id")
		}
		return f(record{string(v.ID), v.Title, v.Text, string(v.Metadata.Group), string(v.Metadata.Category)})
	})
}

// label is a JSON string, or a number as it is written.
type label string

func (l *label) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(l))
	}
	if string(b) == "null" {
		return nil
	}
	var n json.Number
	err := json.Unmarshal(b, &n)
	*l = label(n)
	return err
}

// eachLine calls f with each line of a file and its number. An error of f gets
// the file and the line.
func eachLine(open Open, name string, f func(n int, line []byte) error) error {
	file, err := open(name)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(file)
	in.Buffer(make([]byte, 1<<16), maxLine)
	n := 0
	for err == nil && in.Scan() {
		n++
		line := in.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		err = f(n, line)
	}
	if err == nil && in.Err() != nil {
		if err = in.Err(); errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("more than %d bytes", maxLine)
		}
		n++
	}
	if err != nil {
		err = fmt.Errorf("%s: line %d: %w", name, n, err)
	}
	return errors.Join(err, file.Close())
}

// readQrels reads the judgments of a folder, by query and document: qrels.tsv
// or, when that is missing, qrels/test.tsv.
func readQrels(open Open, dir string) (map[string]map[string]int, error) {
	name := filepath.Join(dir, "qrels.tsv")
	qrels := make(map[string]map[string]int)
	err := eachLine(open, name, qrelLine(qrels))
	if errors.Is(err, fs.ErrNotExist) {
		other := filepath.Join(dir, "qrels", "test.tsv")
		if e := eachLine(open, other, qrelLine(qrels)); !errors.Is(e, fs.ErrNotExist) {
			name, err = other, e
		}
	}
	if err == nil && len(qrels) == 0 {
		err = fmt.Errorf("%s: no judgments", name)
	}
	return qrels, err
}

// qrelLine reads a judgment: BEIR's query, document, grade or trec_eval's
// query, iteration, document, grade, in columns of tabs or, without any, of
// blanks. The first line may be a head.
func qrelLine(qrels map[string]map[string]int) func(n int, line []byte) error {
	return func(n int, line []byte) error {
		text := string(line)
		if strings.TrimSpace(text) == "" {
			return nil
		}
		cells := strings.Fields(text)
		if strings.Contains(text, "\t") {
			cells = strings.Split(text, "\t")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
		}
		if len(cells) != 3 && len(cells) != 4 {
			return fmt.Errorf("%d columns, want query, document, grade", len(cells))
		}
		query, doc, last := cells[0], cells[len(cells)-2], cells[len(cells)-1]
		if n == 1 && !strings.ContainsAny(last, "0123456789") {
			return nil // the head
		}
		grade, err := strconv.ParseFloat(last, 64)
		if err != nil || grade != math.Trunc(grade) || math.Abs(grade) > 1<<30 {
			return fmt.Errorf("grade %q is not an integer", last)
		}
		if query == "" || doc == "" {
			return errors.New("a column is empty")
		}
		of := qrels[query]
		if of == nil {
			of = make(map[string]int)
			qrels[query] = of
		}
		if old, twice := of[doc]; twice && old != int(grade) {
			return fmt.Errorf("query %q, document %q: grade %v contradicts the earlier grade %d", query, doc, grade, old)
		}
		of[doc] = int(grade)
		return nil
	}
}

// format names the form of a saved run.
const format = "crabmem recall 1"

// saved is a run in a file: the results, and the data of each query that
// [Compare] needs.
type saved struct {
	Format string     `json:"format"`
	Sets   []savedSet `json:"sets"`
}

type savedSet struct {
	Result
	Answers []Answer `json:"answers"`
}

// Save writes results for a later [Compare].
func Save(w io.Writer, results []*Result) error {
	s := saved{Format: format}
	for _, r := range results {
		set := savedSet{Result: *r, Answers: make([]Answer, len(r.Answers))}
		for i, a := range r.Answers {
			set.Answers[i] = Answer{Query: a.Query, Rank: a.Rank, Scores: a.Scores}
		}
		s.Sets = append(s.Sets, set)
	}
	return json.NewEncoder(w).Encode(s)
}

// ReadSaved reads a file that [Save] wrote.
func ReadSaved(open Open, name string) ([]*Result, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	var s saved
	err = json.NewDecoder(io.LimitReader(f, maxJSON)).Decode(&s)
	if err == nil && s.Format != format {
		err = fmt.Errorf("format %q, want %q", s.Format, format)
	}
	if err != nil {
		err = fmt.Errorf("%s: not a saved run: %w", name, err)
	}
	results := make([]*Result, len(s.Sets))
	for i := range s.Sets {
		r := s.Sets[i].Result
		r.Answers = s.Sets[i].Answers
		results[i] = &r
	}
	return results, errors.Join(err, f.Close())
}

// AnswerLine is a line of [WriteAnswers].
type AnswerLine struct {
	Set string `json:"set"`
	Answer
}

// WriteAnswers writes a line of JSON for each query.
func WriteAnswers(w io.Writer, r *Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, a := range r.Answers {
		if err := enc.Encode(AnswerLine{r.Set, a}); err != nil {
			return err
		}
	}
	return nil
}
