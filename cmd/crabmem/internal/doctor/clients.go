package doctor

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// checkClients checks the MCP clients whose configuration starts crabmem. It ignores
// all other clients.
func (d *doctor) checkClients(context.Context) {
	for _, c := range mcpclient.Clients() {
		path := c.File(d.Clients)
		text, err := vfs.ReadFile(d.FS, path, mcpclient.MaxBytes)
		if err != nil {
			continue // not installed, or not readable for the client either
		}
		servers, err := c.Servers(text)
		if e, ok := errors.AsType[*mcpclient.SyntaxError](err); ok && strings.Contains(string(text), "crabmem") {
			d.warn("client "+c.ID, "correct the file", "%s:%d: %v", path, e.Line, e.Err)
		}
		for _, name := range mcpclient.Own(servers) {
			d.checkClient(c, path, servers[name])
		}
	}
	for _, c := range mcpclient.HookClients() {
		text, err := vfs.ReadFile(d.FS, c.File(d.Clients), mcpclient.MaxBytes)
		programs, _ := mcpclient.HookPrograms(text) // none in a file with a syntax error
		if err == nil && len(programs) > 0 {
			d.checkProgram("hooks "+c.ID, "run crabmem hooks install "+c.ID, c.File(d.Clients), programs[0])
		}
	}
}

// checkProgram reports whether the program that a client's file starts exists.
func (d *doctor) checkProgram(name, fix, path, program string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		d.fail(name, fix, "%s starts %s, which is missing or not a program", path, errtable.ShellWord(program))
	}
	return err == nil
}

func (d *doctor) checkClient(c mcpclient.Client, path string, e mcpclient.Entry) {
	name, fix := "client "+c.ID, "run crabmem mcp install "+c.ID
	if !d.checkProgram(name, fix, path, e.Command) {
		return
	}
	home := filepath.Join(d.Clients.Home, ".crabtalk")
	if h := e.Env["CRABTALK_HOME"]; h != "" {
		home = h
	}
	for i, a := range e.Args {
		if v, ok := strings.CutPrefix(a, "--home="); ok {
			home = v
		} else if a == "--home" && i+1 < len(e.Args) {
			home = e.Args[i+1]
		}
	}
	if d.real(home) != d.real(d.Home) {
		d.warn(name, fix+" to use the home "+errtable.ShellWord(d.Home), "%s uses another home: %s", path, home)
		return
	}
	d.ok(name, "%s", path)
}

// real returns a path with resolved links or, if that fails, the clean path.
func (d *doctor) real(path string) string {
	if r, err := d.FS.Resolve(path); err == nil {
		return r
	}
	return filepath.Clean(path)
}
