package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

// A program contains a daemon, and a client talks to it. Without a
// configuration, the model offline answers from the memory.
func Example() {
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(home)
	d, err := daemon.Open(daemon.Options{Home: home})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()

	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: daemon.Socket(home)}}
	for c.Ping(ctx) != nil { // until the daemon listens; real time, as for the socket
		time.Sleep(time.Millisecond)
	}
	// The entry is on disk when Remember returns.
	if _, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: "deploy", Content: "build, tag, push"}}); err != nil {
		log.Fatal(err)
	}
	a, err := op.Recall.Do(ctx, c, op.Question{Query: "how do we deploy?", Limit: 5})
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range a.Hits {
		fmt.Printf("%s: %s\n", h.Name, *h.Content)
	}
	// One turn of the agent crab, in a new session.
	r, err := op.SendMessage.Do(ctx, c, op.Message{Content: "how do we deploy?", New: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Session, strings.Contains(r.Content, "build, tag, push"))

	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := errors.Join(<-served, d.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// deploy: build, tag, push
	// crab_user_1 true
}
