// Package recalleval measures how well the store's search finds what it should.
//
// A [Set] is a test collection: documents, queries, and judgments of which
// documents answer which query. [Load] reads one in BEIR's form, [FromStore]
// makes one of a store and a file of questions. [Run] puts the documents into
// a store in memory, asks it every query and scores the answers; [Compare]
// says whether two runs differ by more than chance.
//
// Everything but the times is deterministic: the same set gives the same
// figures, in whatever order its files list documents.
package recalleval

import (
	"fmt"

	"crabmem/crmem"
)

// K is how many hits a query asks for.
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

// Doc is a document, and the entry that stands for it in the store.
type Doc struct {
	ID    string
	Group string
	Entry crmem.Entry
}

// Query is a query and its judgments.
type Query struct {
	ID    string
	Text  string
	Group string
	// Grades are the judgments by document ID. A document is relevant when its
	// grade is above 0; one that is not in the corpus counts as not found.
	Grades map[string]int
}

// Mode is what a query of a grouped set, such as one of many conversations,
// may find.
type Mode string

// The modes. Without one a grouped set is searched by Group, another Pooled.
const (
	Group  Mode = "group"  // an index of the group alone
	Filter Mode = "filter" // the index of everything, of its hits those of the group
	Pooled Mode = "pooled" // everything
)

// ParseMode reads the name of a mode. The empty one is the set's own.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "", Group, Filter, Pooled:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: want group, filter or pooled", s)
}

// mode returns m, or what suits the set when it is empty. A set without groups
// is always searched as a whole.
func (s *Set) mode(m Mode) Mode {
	switch {
	case s.Groups == 0:
		return Pooled
	case m == "":
		return Group
	}
	return m
}

// judge gives the queries their judgments, leaves out those without a relevant
// document and counts what does not fit.
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
		return fmt.Errorf("%s: none of %d queries has a relevant document: the ids of queries and judgments do not fit", s.Name, len(queries))
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
