package recalleval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

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

// maxSaved bounds a saved run, in bytes.
const maxSaved = 1 << 30

// ReadSaved reads a file that [Save] wrote.
func ReadSaved(open Open, name string) ([]*Result, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	var s saved
	err = json.NewDecoder(io.LimitReader(f, maxSaved)).Decode(&s)
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

// WriteAnswers writes a line of JSON for each query.
func WriteAnswers(w io.Writer, r *Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, a := range r.Answers {
		err := enc.Encode(struct {
			Set string `json:"set"`
			Answer
		}{r.Set, a})
		if err != nil {
			return err
		}
	}
	return nil
}
