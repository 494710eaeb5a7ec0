package telegram

import (
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/trust"
)

// TestAccepts accepts users, paired users, and listed groups and topics.
func TestAccepts(t *testing.T) {
	m := faultfs.NewMem()
	if err := vfs.MkdirAll(m, "/home/config", 0o700); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/home/"+File, []byte("allowed_users = [7]\n[[groups]]\nid = -100\ntopics = [0, 5]\n[[groups]]\nid = -200\nsenders = \"all\"\n"), 0o600)
	for conversation, want := range map[string]bool{
		"tg:7": true, "tg:7/12": true, "tg:8": true, "tg:9": false, "tg:": false, "tg:7/": false, "tg:7/x": false, "tg:7/012": false,
		"tg:-100": true, "tg:-100/5": true, "tg:-100/6": false, "tg:-101": false,
		"tg-open:-200": true, "tg-open:-200/6": true, "tg:-200": false, "tg-open:-100": false, "tg-open:7": false,
	} {
		if err := Accepts(m, "/home", conversation, trust.Rules{{Prefix: "tg:8"}}); (err == nil) != want {
			t.Errorf("%s: %v", conversation, err)
		}
	}
}
