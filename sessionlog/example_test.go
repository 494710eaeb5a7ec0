package sessionlog_test

import (
	"fmt"
	"log"
	"os"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

func Example() {
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
	s, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	// A user message is on disk when Append returns.
	err = s.Append(
		sessionlog.Message{Role: record.RoleUser, Content: "which port does it listen on?"},
		sessionlog.Message{Role: record.RoleAssistant, Content: "6688, on loopback"},
	)
	if err != nil {
		log.Fatal(err)
	}
	// The summary replaces the earlier messages in the context, not in the file.
	if err := s.Compact("The daemon listens on port 6688."); err != nil {
		log.Fatal(err)
	}
	if err := s.Append(sessionlog.Message{Role: record.RoleUser, Content: "and over a socket?"}); err != nil {
		log.Fatal(err)
	}
	c, err := s.Context()
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range c.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Content)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.ID())
	// Output:
	// user: The daemon listens on port 6688.
	// user: and over a socket?
	// crab_ada_1
}
