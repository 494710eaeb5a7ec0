package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/gateway"
	"crabmem/daemon/remote"
	"crabmem/daemon/secret"
	"crabmem/daemon/wire"

	"github.com/rogpeppe/go-internal/testscript"
)

// throughGateway are the scripts that run a third time, through a gateway.
var throughGateway = []string{"append", "chat", "context", "forget", "list", "log", "mcp", "pin", "recall", "remember", "remember_forms", "remote_daemon", "send", "show", "tag", "tags",
	"tasks_add", "tasks_list", "tasks_set", "tasks_show", "unpin"}

// The variables of a script that runs through a gateway.
const (
	scriptGateway = "CRABMEM_TEST_GATEWAY" // its URL
	scriptStore   = "CRABMEM_TEST_STORE"   // of its daemon
)

// useGateway makes the command line of a script use the script's gateway. The other command
// lines prepare and check the store as its owner: those that a gateway does not serve, and
// those for another store or home.
func useGateway(args []string) {
	at := os.Getenv(scriptGateway)
	if at == "" || os.Getenv("CRABMEM_DB") != os.Getenv(scriptStore) || slices.Contains(args, "--home") || len(args) > 0 && args[0] == "__complete" {
		return
	}
	i := slices.IndexFunc(args, func(a string) bool {
		return slices.ContainsFunc(commandTable(), func(c command) bool { return c.name == a || a == "ls" })
	})
	if i < 0 {
		return
	}
	name := strings.Replace(args[i], "ls", "list", 1)
	if (name == "tasks" || name == "cron" || name == "work") && i+1 < len(args) {
		name += " " + args[i+1]
	}
	unserved, served := remoteCommands[name]
	if !served || slices.ContainsFunc(args, func(a string) bool {
		flag, ok := strings.CutPrefix(a, "--")
		flag, _, _ = strings.Cut(flag, "=")
		return ok && slices.Contains(unserved, flag) && !(name == "recall" || name == "list") || ok && flag == "at" || ok && flag == "deleted"
	}) {
		return
	}
	os.Setenv(gatewayVariable, at)
}

// TestScriptsThroughGateway runs scripts again through a gateway with TLS whose daemon has
// the store: output and effects are the same.
func TestScriptsThroughGateway(t *testing.T) {
	t.Parallel()
	p := scriptParams(t)
	p.Dir = ""
	p.Condition = func(cond string) (bool, error) { return true, unknownCondition(cond) }
	for _, name := range throughGateway {
		p.Files = append(p.Files, filepath.Join(scriptDir, name+".txtar"))
	}
	t.Logf("%d scripts through a gateway", len(p.Files))
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := setup(e); err != nil {
			return err
		}
		home := filepath.Join(e.WorkDir, "home", ".crabtalk")
		if err := os.MkdirAll(filepath.Join(home, "config"), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte("[origins.\"api:team\"]\ntrust = \"admin\"\n"), 0o600); err != nil {
			return err
		}
		stop, err := serveHome(daemon.Options{Home: home, Store: e.Getenv("CRABMEM_DB"), Getenv: func(string) string { return "" }})
		if err != nil {
			return err
		}
		at, end, err := serveGateway(home, home)
		e.Defer(func() {
			if err := errors.Join(end(), stop()); err != nil {
				t.Errorf("%s: %v", filepath.Base(e.WorkDir), err)
			}
		})
		e.Setenv(scriptGateway, at)
		e.Setenv(scriptStore, e.Getenv("CRABMEM_DB"))
		e.Setenv(rootsVariable, filepath.Join(home, "cert.pem"))
		e.Setenv("CRABMEM_WITH_DAEMON", "1")
		e.Setenv("BY", "api-team")
		self, errSelf := os.Executable() // which calls useGateway; a released program does not
		return errors.Join(err, errSelf, os.Symlink(self, filepath.Join(e.WorkDir, ".fakes", "crabmem")))
	}
	testscript.Run(t, p)
}

// serveGateway serves a home's daemon through a gateway with TLS. The home of the client has
// its key, of the name team.
func serveGateway(home, client string) (at string, end func() error, err error) {
	end = func() error { return nil }
	if err := writeCertificate(home, net.IPv4(127, 0, 0, 1)); err != nil {
		return "", end, err
	}
	conf := gateway.DefaultConfig()
	conf.Server.Port, conf.Server.TLSCert, conf.Server.TLSKey = 0, "cert.pem", "cert.key"
	conf.Limits.Rate, conf.Limits.Burst = 10_000, 10_000
	text, _, err := gateway.AddKey(vfs.OS{}, home, gateway.Key{Name: "team"}, time.Now())
	if err != nil {
		return "", end, err
	}
	g, err := gateway.New(gateway.Options{FS: vfs.OS{}, Home: home, Config: conf, Daemon: wire.Addr{Network: "unix", Address: daemon.Socket(home)},
		Log: slog.New(slog.DiscardHandler), Version: "test", Now: time.Now})
	if err != nil {
		return "", end, err
	}
	l, err := conf.Server.Listen()
	if err != nil {
		return "", end, errors.Join(err, closed(g))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }() // ends with end
	end = func() error {
		cancel()
		return errors.Join(<-ended, closed(g))
	}
	at = "https://" + l.Addr().String()
	u, err := url.Parse(at)
	if err != nil {
		return at, end, err
	}
	s := &secret.Store{FS: vfs.OS{}, Home: client, Keyring: secret.System(func(string) string { return secret.KeyringOff }), LockWait: time.Second}
	_, _, err = s.Set(remote.SecretName(u), text)
	return at, end, err
}

func closed(g *gateway.Gateway) error {
	g.Close()
	return nil
}

// writeCertificate writes cert.pem and cert.key, valid for an address.
func writeCertificate(dir string, ip net.IP) error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return err
	}
	write := func(name, kind string, b []byte) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
	}
	return errors.Join(write("cert.pem", "CERTIFICATE", der), write("cert.key", "PRIVATE KEY", private))
}
