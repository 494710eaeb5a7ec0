// Package component runs components (RFC 0043): programs with tools for agents.
//
// An [McpService] is a service with tools. It writes its port to the home, and the daemon
// finds it there. Its main function only calls [Main]; see the example.
package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/service"
)

// Endpoint is where a component serves its tools.
const Endpoint = "/mcp"

const (
	drain     = 5 * time.Second  // for active calls when the component ends
	headerMax = 64 << 10         // bytes
	headerFor = 10 * time.Second // for a client to send the headers
)

// McpService is a component: a service with tools for agents.
type McpService struct {
	service.Service
	// Handler serves the Model Context Protocol over HTTP, by the official SDK:
	// mcp.NewStreamableHTTPHandler. It answers at [Endpoint].
	Handler http.Handler
}

// Serve serves the tools on a free port of this machine, and writes the port to
// the home, where the daemon finds it. It returns when ctx ends or on an error,
// after it removed the port file.
func (s *McpService) Serve(ctx context.Context) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	file, err := s.PortFile()
	if err != nil {
		return err
	}
	if s.Handler == nil {
		return fmt.Errorf("%s has no handler", s.Name)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(Endpoint, local(untilEnd(ctx, s.Handler)))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerFor, MaxHeaderBytes: headerMax,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends with Shutdown or Close below
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := s.announce(file, port); err != nil {
		return errors.Join(err, server.Close(), drop(<-ended))
	}
	defer func() { err = errors.Join(err, s.withdraw(file, port)) }()
	slog.Info("serving", "component", s.Name, "address", "http://127.0.0.1:"+port+Endpoint)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if server.Shutdown(ending) != nil {
		server.Close() //nolint:errcheck // its listener is closed already
	}
	return drop(<-ended)
}

func drop(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *McpService) files() vfs.FS {
	if s.FS == nil {
		return vfs.OS{}
	}
	return s.FS
}

func (s *McpService) announce(file, port string) error {
	if err := vfs.MkdirAll(s.files(), filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(s.files(), file, 0o600, []byte(port))
}

// withdraw removes the port file, unless another process of the component has
// written its own.
func (s *McpService) withdraw(file, port string) error {
	b, err := vfs.ReadFile(s.files(), file, 32)
	if err != nil || strings.TrimSpace(string(b)) != port {
		return nil
	}
	return s.files().Remove(file)
}

// untilEnd ends streams of events, which have no other end, when ctx ends.
func untilEnd(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			stream, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			r = r.WithContext(stream)
		}
		next.ServeHTTP(w, r)
	})
}

// local refuses requests of web pages: those with an Origin, or with a Host
// that is not this machine.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host != "127.0.0.1" && host != "localhost" {
			http.Error(w, "this is a local service: Host must be 127.0.0.1", http.StatusForbidden)
			return
		}
		if r.Header.Get("Origin") != "" {
			http.Error(w, "this service is local: requests with an Origin header are rejected", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Run runs f until it returns or a signal ends it. It logs to standard error;
// CRABTALK_LOG=debug logs more. It returns the exit code for os.Exit.
func Run(f func(ctx context.Context) error) int {
	level := slog.LevelInfo
	if text := os.Getenv("CRABTALK_LOG"); text != "" && level.UnmarshalText([]byte(text)) != nil {
		level = slog.LevelInfo
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f(ctx); err != nil {
		slog.Error("ended", "error", err)
		return 1
	}
	return 0
}

const usage = `usage: %[1]s [COMMAND]
%[2]s

  run     serve in the foreground until a signal (default)
  start   install the program as a user service and start it
  stop    stop and uninstall the service
  logs    print the last lines of the log; -f also prints new lines
  print   print the service definition that start installs
`

// Main is the main function of a component. args are the arguments of the
// program:
//
//	func main() { os.Exit(component.Main(s, os.Args[1:], os.Stdout, os.Stderr)) }
//
// It returns the exit code.
func Main(s *McpService, args []string, stdout, stderr io.Writer) int {
	do := "run"
	if len(args) > 0 {
		do = args[0]
	}
	follow := do == "logs" && len(args) == 2 && args[1] == "-f"
	if len(args) > 1 && !follow {
		do = ""
	}
	var f func(ctx context.Context) error
	switch do {
	case "run":
		f = s.Serve
	case "start":
		f = s.Start
	case "stop":
		f = s.Stop
	case "print":
		f = func(context.Context) error { return s.Print(stdout) }
	case "logs":
		f = func(ctx context.Context) error { return s.Logs(ctx, stdout, 50, follow) }
	case "-h", "--help", "help":
		fmt.Fprintf(stdout, usage, "crabmem "+s.Name, s.Description)
		return 0
	default:
		fmt.Fprintf(stderr, usage, "crabmem "+s.Name, s.Description)
		return 2
	}
	return Run(f)
}
