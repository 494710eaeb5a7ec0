package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"
	"crabmem/daemon/gateway/page"
	"crabmem/daemon/guard"

	"github.com/spf13/cobra"
)

// openedPage is the output of open.
type openedPage struct {
	URL     string `json:"url"`
	Code    string `json:"code"`
	Expires string `json:"expires_at" op:"time"`
	Serving bool   `json:"serving"` // this process is the gateway
}

func openCommand(c *app) *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use:     "open",
		GroupID: groupAgents,
		Short:   "open the web page of the memory",
		Long: `Open the page on which you read, search, and edit the memory in a browser, and
talk to agents. open prints a code for one login within a minute. A browser then
remains logged in for 12 hours, or until the gateway stops.

open starts the daemon if it is not running. If no gateway of this home is
running, open runs it until Ctrl+C; see crabmem gateway. If another program uses
the port of config/gateway.toml, open takes a free port and says so. The browser
opens only if the output is a terminal.`,
		Example: `  crabmem open
  crabmem open --no-browser`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&stay, "no-browser", false, "open no browser")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		home, conf, err := c.gatewayConfig()
		if err != nil {
			return err
		}
		if cl, _, err := c.running(cmd.Context()); err == nil {
			cl.Close() //nolint:errcheck // it has responded
		} else if isUnresponsive(err) {
			return err
		} else if _, err := c.startDaemon(cmd.Context(), home, false); err != nil {
			return err
		}
		show := func(port int, serving bool) error {
			return c.showPage(cmd.Context(), home, pageURL(&conf.Server, port), serving, !stay)
		}
		for _, port := range []int{conf.Server.Port, c.openPort(home)} {
			at := conf.Server
			at.Port = port
			if gateway.Answers(cmd.Context(), &at, gateway.HomeID(c.fs, home)) {
				return show(port, false)
			}
		}
		l, g, err := c.newGateway(home, &conf)
		if err != nil && classify(err).Kind == "listen" && conf.Server.Port != 0 {
			conf.Server.Port = 0
			if l, g, err = c.newGateway(home, &conf); err == nil {
				c.Note("another program uses the port of config/gateway.toml: the page has a free port; set port in [server] to keep one")
			}
		}
		if err != nil {
			return err
		}
		defer g.Close()
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		if err := vfs.WriteFile(c.fs, filepath.Join(home, openPortFile), 0o600, []byte(port)); err != nil {
			c.Warn(err.Error()) // another open does not find this gateway
		}
		if err := show(l.Addr().(*net.TCPAddr).Port, true); err != nil {
			l.Close() //nolint:errcheck // the error before is the cause
			return err
		}
		c.serving.Store(true)
		return g.Serve(cmd.Context(), l)
	}
	return c.outputs(cmd, of[openedPage]())
}

// openPortFile contains the port of the last gateway that open started.
const openPortFile = "run/open-port"

// openPort returns the port in openPortFile, or 0.
func (c *app) openPort(home string) int {
	b, _ := vfs.ReadFile(c.fs, filepath.Join(home, openPortFile), 16) // a missing file has no port
	port, _ := strconv.Atoi(string(b))
	return port
}

// pageURL returns the address of the page. Browsers send a cookie to each port of a host,
// so the page has a host name that other programs do not use. With TLS, it is the first name
// in allow_hosts: the certificate contains it.
func pageURL(s *gateway.Server, port int) string {
	host := s.Host
	switch {
	case s.TLSCert != "" && len(s.AllowHosts) > 0:
		host = s.AllowHosts[0]
	case s.TLSCert == "" && guard.Loopback(host):
		host = "crabmem.localhost"
	}
	return s.URL(host, port) + page.Prefix
}

// showPage prints the address and a login code, and opens the browser of a person.
func (c *app) showPage(ctx context.Context, home, url string, serving, browse bool) error {
	now := c.now()
	code, err := page.NewCode(c.fs, home, now)
	if err != nil {
		return c.about(filepath.Join(home, page.CodeFile), err)
	}
	if c.JSON {
		err := c.PrintJSON(openedPage{URL: url, Code: code, Expires: now.Add(page.CodeTime).UTC().Format(time.RFC3339), Serving: serving})
		return errors.Join(err, c.Out.Flush()) // before the gateway serves
	}
	fmt.Fprintf(c.Out, "page  %s\ncode  %s  (for one login within a minute)\n", url, code)
	if serving {
		c.Say("Ctrl+C stops the gateway")
	}
	c.Out.Flush() //nolint:errcheck // the end of the command reports it
	if browse && c.IsTerminal(c.Stdout) {
		if name, args := browserCommand(url, c.Getenv); name != "" {
			_ = exec.CommandContext(context.WithoutCancel(ctx), name, args...).Start() // the address is printed, too
		}
	}
	return nil
}

// browserCommand returns the program that opens a URL; empty without a screen.
func browserCommand(url string, getenv func(string) string) (name string, args []string) {
	switch {
	case runtime.GOOS == "darwin":
		return "open", []string{url}
	case runtime.GOOS == "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler", url}
	case getenv("DISPLAY")+getenv("WAYLAND_DISPLAY") != "":
		return "xdg-open", []string{url}
	}
	return "", nil
}
