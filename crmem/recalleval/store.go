package recalleval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
)

// FromStore creates a set from the entries of a store and a file of questions.
// Each line has a question, a tab, and the name of the entry that answers it.
// Repeat the question on another line for each further entry that answers it.
// The ID of a question is the number of its first line. The set shares the
// memory of the store, which must stay open.
func FromStore(name string, store *crmem.Store, open Open, questions string) (*Set, error) {
	s := &Set{Name: name}
	for e := range store.All() {
		s.Docs = append(s.Docs, Doc{ID: e.Name, Entry: e})
	}
	slices.SortFunc(s.Docs, func(a, b Doc) int { return cmp.Compare(a.ID, b.ID) })
	var queries []Query
	ids := make(map[string]string) // by question
	qrels := make(map[string]map[string]int)
	err := eachLine(open, questions, func(n int, line []byte) error {
		text := string(line)
		if strings.TrimSpace(text) == "" {
			return nil
		}
		question, answer, ok := strings.Cut(text, "\t")
		if !ok || answer == "" {
			return errors.New("want a question, a tab and the name of an entry")
		}
		if !utf8.ValidString(text) {
			return errors.New("invalid UTF-8")
		}
		id := ids[question]
		if id == "" {
			id = strconv.Itoa(n)
			ids[question] = id
			qrels[id] = make(map[string]int)
			queries = append(queries, Query{ID: id, Text: question})
		}
		qrels[id][answer] = 1
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%s: no questions", questions)
	}
	return s, s.judge(queries, qrels)
}
