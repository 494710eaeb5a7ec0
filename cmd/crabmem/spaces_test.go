package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"
	"crabmem/daemon/space"
)

// TestSpacesOfKeys checks that spaces list shows the names of keys, and no hash.
func TestSpacesOfKeys(t *testing.T) {
	p := newPatient(t)
	if _, _, err := gateway.AddKey(vfs.OS{}, p.home, gateway.Key{Name: "phone"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, identity := range []string{"api:phone", "api:gone"} {
		if err := os.MkdirAll(filepath.Join(p.home, "spaces", space.OfSender(identity)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, code := p.command("spaces", "list")
	if code != 0 || !strings.Contains(out, "api:phone ") || !strings.Contains(out, "(key phone)") || !strings.Contains(out, "(a removed key, or another sender)") || strings.Contains(out, "sender-") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
