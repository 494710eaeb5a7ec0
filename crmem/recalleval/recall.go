// Package recalleval measures the recall of the store's search.
//
// A [Set] is a test collection: documents, queries, and judgments of which
// documents answer which query. [Find] finds sets in the format of BEIR, and conversations
// in the forms in which others publish them; [Source.Load] reads one.
// [FromStore] creates a set from a store and a file of questions. [Run] loads
// the documents into a store in memory, runs every query, and scores the
// rankings. [Compare] tests whether two runs differ by more than chance.
//
// Results other than times are deterministic. They do not depend on the order
// of documents in the files.
package recalleval

import (
	"fmt"

	"crabmem/crmem"
)

// K is the limit of hits per query.
const K = 100

// Set is a test collection.
type Set struct {
	Name    string
	Docs    []Doc   // ascending by ID
	Queries []Query // those with a relevant document, in the order of their file

	Groups         int // different groups of documents; 0: the set is not grouped
	LeftOut        int // queries without a relevant document
	UnknownDocs    int // judgments of documents that are not there
	UnknownQueries int // judged queries that are not there
	Ungrouped      int // queries of a grouped set without a group: they search everything
}

// Doc is a document, and the entry that the store has for it.
type Doc struct {
	ID    string
	Group string
	Entry crmem.Entry
}

// Query is a query and its judgments.
type Query struct {
	ID       string
	Text     string
	Group    string
	Category string // kind of question, if the set states it
	// Grades are the judgments by document ID. A document is relevant when its
	// grade is above 0; one that is not in the corpus counts as not found.
	Grades map[string]int
}

// Mode selects the documents that a query of a grouped set can find. The groups
// may be conversations, for example.
type Mode string

// The modes. Without one a grouped set is searched by Group, another Pooled.
const (
	Group  Mode = "group"  // an index of the group alone
	Filter Mode = "filter" // one index of all documents; hits of other groups are dropped
	Pooled Mode = "pooled" // everything
)

// ParseMode reads the name of a mode. The empty one is the set's own.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "", Group, Filter, Pooled:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: want group, filter, or pooled", s)
}

// mode returns m, or the default of the set if m is empty. A set without groups
// is always searched as one.
func (s *Set) mode(m Mode) Mode {
	switch {
	case s.Groups == 0:
		return Pooled
	case m == "":
		return Group
	}
	return m
}

// judge assigns the judgments to the queries, drops queries without a relevant
// document, and counts judgments of unknown queries.
func (s *Set) judge(queries []Query, qrels map[string]map[string]int) error {
	groups := make(map[string]string, len(s.Docs)) // by document
	distinct := make(map[string]bool)
	for _, d := range s.Docs {
		groups[d.ID] = d.Group
		if d.Group != "" {
			distinct[d.Group] = true
		}
	}
	s.Groups = len(distinct)
	asked := make(map[string]bool, len(queries))
	for _, q := range queries {
		asked[q.ID] = true
		q.Grades = qrels[q.ID]
		if len(relevant(q.Grades)) == 0 {
			s.LeftOut++
			continue
		}
		if q.Group == "" && s.Groups > 0 {
			if q.Group = commonGroup(q.Grades, groups); q.Group == "" {
				s.Ungrouped++
			}
		}
		s.Queries = append(s.Queries, q)
	}
	for id, grades := range qrels {
		if !asked[id] {
			s.UnknownQueries++
		}
		for doc := range grades {
			if _, ok := groups[doc]; !ok {
				s.UnknownDocs++
			}
		}
	}
	if len(s.Queries) == 0 {
		return fmt.Errorf("%s: none of %d queries has a relevant document: the IDs in queries and judgments do not match", s.Name, len(queries))
	}
	return nil
}

// commonGroup is the group that all relevant documents are in; "" when there
// is no such group.
func commonGroup(grades map[string]int, groups map[string]string) string {
	common, first := "", true
	for doc, grade := range grades {
		if grade <= 0 {
			continue
		}
		if g := groups[doc]; first {
			common, first = g, false
		} else if g != common {
			return ""
		}
	}
	return common
}
