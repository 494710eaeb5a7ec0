package search_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"crabmem/bm25/analysis"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

func ExampleIndex_Search() {
	folder, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	d, err := sessionlog.OpenDir(folder, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	x, err := search.NewIndex(d, &search.IndexOptions{Analyzer: analysis.Standard})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()

	// The index follows what the process writes.
	s, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	err = s.Append(
		sessionlog.Message{Role: record.RoleUser, Content: "Which port has the redis of staging?"},
		sessionlog.Message{Role: record.RoleAssistant, Content: "It is port 6390."},
	)
	if err != nil {
		log.Fatal(err)
	}
	// The answer is found, although only the question contains redis.
	r, err := x.Search(context.Background(), search.Query{Text: "redis port", Limit: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range r.Hits {
		fmt.Printf("%s line %d, %s: %s\n", h.ID, h.Line, h.Role, h.Snippet)
	}
	// Output:
	// crab_ada_1 line 2, user: Which port has the redis of staging?
	// crab_ada_1 line 3, assistant: It is port 6390.
}
