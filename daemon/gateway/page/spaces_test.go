package page

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

// TestSpaces reads and writes two spaces in two tabs of one browser.
func TestSpaces(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	if strings.Contains(p.text, `action="/ui/space"`) {
		t.Error("a home with one space has a choice")
	}
	if err := os.MkdirAll(space.Dir(r.home, "team"), 0o700); err != nil {
		t.Fatal(err)
	}
	team := &client.Client{Addr: r.daemon.Addr, Header: op.Header{Space: "team"}}
	defer team.Close()
	r.remember("of main", "the walrus of main")
	p.open("/ui/memories")
	other := *p
	p.submit("/ui/space", map[string]string{"choice": "team"})
	if p.code != 200 || !strings.Contains(p.text, "No memories") || !strings.Contains(p.text, `<option value="team" selected>team`) || strings.Contains(p.text, "of main</bdi>") {
		t.Errorf("the space team: %s", p.text)
	}
	p.open("/ui/new").submit("/ui/new", map[string]string{"name": "of team", "content": "the walrus of team"})
	if e, err := op.ReadEntry(t.Context(), team, op.EntryName{Name: "of team"}); err != nil || e.ID != 1 {
		t.Errorf("a note of the space: %+v, %v", e, err)
	}
	if p.open("/ui/memories").submit("/ui/memories", map[string]string{"q": "walrus"}); !strings.Contains(p.text, "the walrus of team") || strings.Contains(p.text, "the walrus of main") {
		t.Errorf("search in the space: %s", p.text)
	}
	if p.open("/ui/memories/1"); p.heading() != "of team" {
		t.Errorf("the entry: %s", p.heading())
	}

	// The form of the first tab belongs to main, and changes main.
	other.submit("/ui/space", map[string]string{"choice": "main"})
	other.open("/ui/memories/1/edit")
	p.submit("/ui/space", map[string]string{"choice": "team"})
	other.submit("/ui/memories/1/edit", map[string]string{"content": "changed"})
	if other.heading() != "of main" || r.content("of main") != "changed" {
		t.Errorf("the form of the other tab: %d, %s, %q", other.code, other.heading(), r.content("of main"))
	}

	for _, name := range []string{"missing", "..", "a/b", ""} {
		p.open("/ui/memories").submit("/ui/space", map[string]string{"choice": name})
		if p.code != http.StatusNotFound && p.code != http.StatusBadRequest {
			t.Errorf("the space %q: %d", name, p.code)
		}
	}
	if err := os.Mkdir(space.Dir(r.home, "gone"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, b := range r.page.browsers.byHash {
		r.page.browsers.setSpace(b, "gone") // the daemon never opens it
	}
	p.open("/ui/new")
	if err := os.RemoveAll(space.Dir(r.home, "gone")); err != nil {
		t.Fatal(err)
	}
	if p.submit("/ui/new", map[string]string{"name": "late", "content": "x"}); p.code < 400 {
		t.Errorf("a form of a removed space: %d, %s", p.code, p.at)
	}
	if p.open("/ui/memories"); !strings.Contains(p.text, "of main</bdi>") {
		t.Errorf("after the removal: %d", p.code)
	}
}

// TestSpacesOfKeys chooses the spaces of a key and of a removed key: the page shows no hash.
func TestSpacesOfKeys(t *testing.T) {
	r := newRig(t)
	for _, identity := range []string{"api:phone", "api:gone", "tg:7"} {
		if err := os.MkdirAll(space.Dir(r.home, space.OfSender(identity)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := r.visitor()
	p.open("/ui/memories")
	for _, choice := range []string{"api:phone", "api:gone", "sender:" + space.OfSender("tg:7")[len("sender-"):][:8]} {
		p.submit("/ui/space", map[string]string{"choice": choice})
		if p.code != 200 || !strings.Contains(p.text, `<option value="`+choice+`" selected>`) || strings.Contains(p.text, "sender-") {
			t.Errorf("%s: %d, %s", choice, p.code, p.text)
		}
		p.open("/ui/new").submit("/ui/new", map[string]string{"name": "of " + choice, "content": "x"})
		if p.open("/ui/memories"); !strings.Contains(p.text, "of "+choice+"</bdi>") {
			t.Errorf("a note of %s: %s", choice, p.text)
		}
	}
	for _, text := range []string{">api:phone (key phone)<", ">api:gone (removed key gone)<", " (a removed key, or another sender)<"} {
		if !strings.Contains(p.text, text) {
			t.Errorf("no %s: %s", text, p.text)
		}
	}
	p.submit("/ui/space", map[string]string{"choice": "api:none"})
	if p.code != http.StatusNotFound || !strings.Contains(p.text, "api:none") || strings.Contains(p.text, "sender-") {
		t.Errorf("a missing space: %d, %s", p.code, p.text)
	}
}
