// Modelserver serves a scripted model until SIGINT or SIGTERM.
//
//	go run ./fuzz/modelserver [-addr HOST:PORT] [-log] SCRIPT...
//
// It prints the base URL for a provider of kind openai-compatible. Package
// modeltest defines the format of scripts. testdata/model contains examples. With
// -log it writes the body of each request to standard error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"crabmem/daemon/model/modeltest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	log := flag.Bool("log", false, "write requests to standard error")
	flag.Parse()
	if err := run(*addr, *log, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(addr string, log bool, scripts []string) error {
	if len(scripts) == 0 {
		return fmt.Errorf("no script: pass at least one file name")
	}
	s, err := modeltest.Start(addr)
	if err != nil {
		return err
	}
	defer s.Close()
	if log {
		s.Log = func(r modeltest.Request) { fmt.Fprintf(os.Stderr, "%s\n", r.Body) }
	}
	for _, name := range scripts {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := s.Script(string(b)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Println(s.URL)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}
