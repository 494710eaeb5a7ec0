package crmem_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"crabmem/crmem"
)

func Example() {
	dir, err := os.MkdirTemp("", "crmem")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "memory.db")

	s, err := crmem.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	// When Remember returns, the note is on disk.
	if _, err := s.Remember("deploy", "build, tag, push, then watch the canary", []string{"ship"}); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Remember("tea", "green, three minutes", nil); err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	s, err = crmem.Open(path, &crmem.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	r, err := s.Search(context.Background(), crmem.Query{Text: "how do we ship?", Limit: 5})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range r.Hits {
		fmt.Printf("%d %s: %s\n", h.ID, h.Name, h.Content)
	}
	// Output: 1 deploy: build, tag, push, then watch the canary
}

func ExampleStore_Apply() {
	s := crmem.New(nil)
	// A batch is atomic.
	err := s.Apply(
		crmem.Add{Name: "plan", Content: "first draft"},
		crmem.Update{Name: "plan", Content: "second draft", Aliases: []string{"roadmap"}},
		crmem.Remove{Name: "no such entry"},
	)
	fmt.Println(errors.Is(err, crmem.ErrNotFound), s.Len())
	// Output: true 0
}

func ExampleStore_Get() {
	s := crmem.New(nil)
	if err := s.Apply(crmem.Add{Name: "deploy", Aliases: []string{"ship"}}, crmem.Add{Name: "sail", Aliases: []string{"ship"}}); err != nil {
		log.Fatal(err)
	}
	_, err := s.Get("ship")
	fmt.Println(err)
	// Output: "ship" is an alias of 2 entries: deploy, sail
}

func ExampleDecode() {
	_, err := crmem.Decode([]byte("CRMEM\x00\x02\x00\x00\x00 and so on, to the end"))
	fmt.Println(err)
	// Output: offset 6: version: version 2, this program reads version 1
}
