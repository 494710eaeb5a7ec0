package page

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"

	"golang.org/x/net/html"
)

// remember writes a note and returns its path.
func (r *rig) remember(name, content string, aliases ...string) string {
	r.Helper()
	w, err := op.Remember.Do(r.Context(), r.daemon, op.Note{Remember: crmem.Remember{Name: name, Content: content, Aliases: aliases}})
	if err != nil {
		r.Fatal(err)
	}
	return pathOf(w.ID)
}

// content returns the content of an entry.
func (r *rig) content(name string) string {
	r.Helper()
	e, err := op.ReadEntry(r.Context(), r.daemon, op.EntryName{Name: name})
	if err != nil {
		r.Fatal(err)
	}
	return e.Content
}

// TestBrowse lists all entries, newest first, across gaps of removed entries.
func TestBrowse(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	if !strings.Contains(p.text, "No memories") {
		t.Errorf("an empty store: %s", p.text)
	}
	var ops []crmem.Op
	for i := range 700 {
		ops = append(ops, crmem.Add{Name: fmt.Sprintf("note %d", i+1), Content: "text", Kind: crmem.Kind(i % 7 / 6)})
	}
	if _, err := op.ApplyOps(t.Context(), r.daemon, ops...); err != nil {
		t.Fatal(err)
	}
	ops = nil
	for i := 120; i < 600; i++ {
		ops = append(ops, crmem.Remove{Name: fmt.Sprintf("note %d", i)})
	}
	if _, err := op.ApplyOps(t.Context(), r.daemon, ops...); err != nil {
		t.Fatal(err)
	}
	// One window contains many entries, and all windows before it are empty.
	if _, err := op.ApplyOps(t.Context(), r.daemon, crmem.Restore{Entry: crmem.Entry{ID: 1500, Name: "far", Content: "x", CreatedAt: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := op.ApplyOps(t.Context(), r.daemon, crmem.Remove{Name: "far"}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"", "note", "archive"} {
		var got, want []string
		for i := 700; i > 0; i-- {
			if (i < 120 || i >= 600) && (kind == "" || (kind == "archive") == (i%7 == 0)) {
				want = append(want, pathOf(uint64(i)))
			}
		}
		p.open("/ui/memories?kind=" + kind)
		for parts := 1; ; parts++ {
			list := p.links("/ui/memories/")
			if len(list) > pageSize {
				t.Errorf("a part has %d entries", len(list))
			}
			got = append(got, list...)
			if !strings.Contains(p.text, "Older memories") {
				break
			}
			p.follow("Older memories")
		}
		if !slices.Equal(got, want) {
			t.Errorf("kind %q: %d entries, want %d", kind, len(got), len(want))
		}
	}
	if p.open("/ui/memories?kind=x"); p.code != http.StatusBadRequest {
		t.Errorf("another kind: %d", p.code)
	}
}

// TestSearch: the bars of a hit are the numbers of its explanation.
func TestSearch(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.remember("deploy", "We build, tag, and push. Then we watch the canary.", "ship")
	r.remember("tea", "Green tea is a drink.")
	p.submit("/ui/memories", map[string]string{"q": "watch canary deploy"})
	if list := p.links("/ui/memories/"); len(list) != 1 || list[0] != "/ui/memories/1" {
		t.Fatalf("hits %q", list)
	}
	sum, shown := 0.0, -1.0
	for _, m := range p.elements("meter") {
		value, _ := attr(m, "value")
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += f
	}
	for _, n := range p.elements("p") {
		if _, after, ok := strings.Cut(textOf(n), ", score "); ok {
			shown, _ = strconv.ParseFloat(after, 64)
		}
	}
	if math.Abs(sum-shown) > 0.0006 || sum == 0 {
		t.Errorf("the parts add up to %v, the score is %v", sum, shown)
	}
	if p.open("/ui/memories?q=cannary"); !strings.Contains(p.text, "No memory contains “cannary”") {
		t.Errorf("a correction: %s", p.text)
	}
	if p.open("/ui/memories?q=deploy&meaning=1"); !strings.Contains(p.text, "1 of 1 match;") {
		t.Errorf("without an embedding model: %s", p.text)
	}
	if p.open("/ui/memories?q=" + strings.Repeat("x", maxQuery+1)); p.code != http.StatusBadRequest {
		t.Errorf("a long query: %d", p.code)
	}
	if p.open("/ui/memories?q=walrus"); !strings.Contains(p.text, "0 of 0 matches") {
		t.Errorf("no hits: %s", p.text)
	}
}

// TestMemory reads an entry with metadata and links.
func TestMemory(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.remember("canary", "It goes **first**.")
	path := r.remember("deploy", "---\ntype: decision\ntags: [release, infra]\n---\n# Steps\n\nPush, then watch [[canary]], or [[canary|the *bird*]]; `[[canary]]` is code.\n\n[site](https://example.com/x)", "ship")
	p.open(path)
	if p.heading() != "deploy" || !strings.Contains(p.text, "also <bdi>ship</bdi>") {
		t.Errorf("heading %q", p.heading())
	}
	fields := ""
	for _, n := range p.find(func(n *html.Node) bool { return n.Data == "dt" || n.Data == "dd" }) {
		fields += textOf(n) + "|"
	}
	if fields != "type|decision|tags|release, infra|" {
		t.Errorf("metadata %s", fields)
	}
	var shown []string
	for _, a := range p.elements("a") {
		if to, _ := attr(a, "href"); inProse(a) {
			shown = append(shown, textOf(a)+" "+to)
		}
	}
	if want := []string{"canary /ui/memories?name=canary", "the *bird* /ui/memories?name=canary", "site https://example.com/x"}; !slices.Equal(shown, want) {
		t.Errorf("links %q, want %q", shown, want)
	}
	if !strings.Contains(p.text, "<code>[[canary]]</code> is code") {
		t.Errorf("code: %s", p.text)
	}
	r.remember("rollout", "After [[ship]] comes [[deploy plan]].")
	r.remember("headings", "[[Notes/Deploy.md#Steps|steps]], [[#Here]], [[ship#x]], and ![[pic.png]]")
	r.remember("deploy plan", "We deploy, see `[[deploy]]`. How to deploy is elsewhere.")
	r.remember("a \"quoted\" name", "---\nsupersedes: \"[[deploy]]\"\n---\nx")
	p.open(path)
	_, linked, _ := strings.Cut(p.text, "Linked from")
	if !strings.Contains(linked, ">rollout<") || !strings.Contains(linked, "quoted") || strings.Count(linked, ">headings<") != 1 || strings.Contains(linked, ">deploy plan<") || strings.Contains(linked, ">canary<") {
		t.Errorf("linked from: %s", linked)
	}
	for _, name := range []string{"!!!", `"`, "-x", "kind:note", strings.Repeat("long name ", 102)} { // names that are no words, or clauses
		at := r.remember(name, "see [[rollout]] and [["+name+"]]")
		if p.open(at); p.code != http.StatusOK {
			t.Errorf("%.20q: %d", name, p.code)
		}
	}
	p.open(path)
	if p.follow("rollout"); p.heading() != "rollout" || !strings.Contains(p.text, "Linked from") {
		t.Errorf("the link led to %s", p.at)
	}
	p.open(r.remember("by heading", "[[Notes/Deploy.md#Steps|steps]], [[#Here]]"))
	if p.follow("steps"); p.at != path {
		t.Errorf("the link led to %s", p.at)
	}
	p.open(path)
	if p.follow("canary"); p.at != "/ui/memories/1" || !strings.Contains(p.text, "<strong>first</strong>") {
		t.Errorf("the link led to %s", p.at)
	}
	for _, path := range []string{"/ui/memories/99", "/ui/memories/0", "/ui/memories/x", "/ui/memories?name=missing", "/ui/memories/99/edit", "/ui/memories/99/history", "/ui/memories/1/history/77", "/ui/sessions/x", "/ui/x"} {
		if p.open(path); p.code != http.StatusNotFound {
			t.Errorf("%s: %d", path, p.code)
		}
	}
}

// TestFormKeepsContents opens the form of an entry and sends it unchanged, for contents
// that a form could change.
func TestFormKeepsContents(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	parts := []string{"\n", "\r\n", "\r", " ", "\t", "a", "\n\n", "<b>", "&amp;", "&#10;", "</textarea>", "\"", "é", "日本", "\u0085", "\u2028", "{{.}}", "\x00", "\f", "\x7f", "\ufeff", "🦀"}
	random := rand.New(rand.NewPCG(1, 1))
	edited := 0
	for i := range 400 {
		var b strings.Builder
		for range random.IntN(6) {
			// Most contents have one kind of line ends, or they could not be edited.
			part := parts[random.IntN(len(parts))]
			if i%2 == 0 {
				part = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "", "\f", "").Replace(part)
			} else if i%4 == 1 {
				part = strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "", "\f", "").Replace(part), "\n", "\r\n")
			}
			b.WriteString(part)
		}
		content := b.String()
		if strings.TrimSpace(content) == "" { // which is refused
			continue
		}
		path := r.remember("note", content, "an alias", "<i>")
		p.open(path + "/edit")
		if p.code == http.StatusConflict {
			if i%4 != 3 {
				t.Errorf("%q cannot be edited: %s", content, p.text)
			}
			continue
		}
		edited++
		if p.submit(path+"/edit", nil); p.at != path {
			t.Fatalf("%q: %d, %s", content, p.code, p.text)
		}
		e, err := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "note"})
		if err != nil || e.Content != content || !slices.Equal(e.Aliases, []string{"an alias", "<i>"}) {
			t.Fatalf("the form changed %q to %q, %q, %v", content, e.Content, e.Aliases, err)
		}
	}
	if edited < 200 {
		t.Errorf("%d contents were edited", edited)
	}
	for _, aliases := range [][]string{{" a"}, {"a\nb"}} {
		path := r.remember("note", "text", aliases...)
		if p.open(path + "/edit"); p.code != http.StatusConflict {
			t.Errorf("aliases %q: %d", aliases, p.code)
		}
	}
}

// TestEdit creates, changes, and removes a note.
func TestEdit(t *testing.T) {
	r := newRig(t)
	p := r.visitor().open("/ui/new")
	p.submit("/ui/new", map[string]string{"name": "deploy", "content": "by\nhand\n", "aliases": " ship \n\nrelease"})
	if p.at != "/ui/memories/1" || r.content("deploy") != "by\nhand\n" {
		t.Fatalf("create: %d, %s, %q", p.code, p.at, r.content("deploy"))
	}
	e, _ := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "deploy"})
	if !slices.Equal(e.Aliases, []string{"ship", "release"}) {
		t.Errorf("aliases %q", e.Aliases)
	}
	p.open("/ui/new").submit("/ui/new", map[string]string{"name": "deploy", "content": "other"})
	if p.code != http.StatusUnprocessableEntity || !strings.Contains(p.text, "choose another name") || !strings.Contains(p.text, ">\nother</textarea>") {
		t.Errorf("a taken name: %d, %s", p.code, p.text)
	}
	p.submit("/ui/new", map[string]string{"name": "deploy 2"})
	if r.content("deploy 2") != "other" {
		t.Error("the form of a refused note lost its text")
	}
	if p.open("/ui/new").submit("/ui/new", map[string]string{"name": " "}); p.code != http.StatusUnprocessableEntity {
		t.Errorf("an empty name: %d", p.code)
	}
	p.open("/ui/memories/1").follow("Edit").submit("/ui/memories/1/edit", map[string]string{"content": "by a script", "aliases": ""})
	if e, _ := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "deploy"}); e.Content != "by a script" || len(e.Aliases) != 0 {
		t.Errorf("change: %+v", e)
	}
	p.open("/ui/memories/1").follow("Remove")
	r.remember("deploy", "by another client")
	if p.submit("/ui/memories/1/remove", nil); p.code != http.StatusConflict {
		t.Errorf("remove a changed note: %d", p.code)
	}
	p.open("/ui/memories/1/remove").submit("/ui/memories/1/remove", nil)
	if _, err := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "deploy"}); err == nil || p.at != "/ui/memories/1/history" {
		t.Errorf("remove: %v, %s", err, p.at)
	}
	if by := r.actor(1); by.Client != "page" {
		t.Errorf("the history has %+v", by)
	}
	if _, err := op.ApplyOps(t.Context(), r.daemon, crmem.Add{Name: "talk", Content: "x", Kind: crmem.Archive}); err != nil {
		t.Fatal(err)
	}
	if p.open("/ui/memories/3/edit"); p.code != http.StatusConflict {
		t.Errorf("edit an archive: %d", p.code)
	}
	if p.open("/ui/memories/3/remove").submit("/ui/memories/3/remove", nil); p.code != http.StatusForbidden {
		t.Errorf("remove an archive: %d", p.code)
	}
}

// actor returns who made the last change of an entry.
func (r *rig) actor(id uint64) crmem.Actor {
	r.Helper()
	list, err := op.ListChanges.Do(r.Context(), r.daemon, op.ChangeFilter{ID: id, Limit: 1})
	if err != nil || len(list.Changes) == 0 {
		r.Fatal(err)
	}
	return list.Changes[0].By
}

// TestConflict edits a note in two tabs: the second person sees both texts, and loses
// neither.
func TestConflict(t *testing.T) {
	r := newRig(t)
	one, two := r.visitor(), r.visitor()
	path := r.remember("deploy", "build\ntag\npush\n")
	one.open(path + "/edit")
	two.open(path + "/edit")
	one.submit(path+"/edit", map[string]string{"content": "build\ntag twice\npush\n"})
	two.submit(path+"/edit", map[string]string{"content": "build\ntag\npush\nwatch\n"})
	if two.code != http.StatusConflict || r.content("deploy") != "build\ntag twice\npush\n" {
		t.Fatalf("conflict: %d, %q", two.code, r.content("deploy"))
	}
	var lines []string
	for _, n := range two.find(func(n *html.Node) bool { class, _ := attr(n, "class"); return class == "added" || class == "removed" }) {
		lines = append(lines, strings.Join(strings.Fields(textOf(n)), " "))
	}
	if want := []string{"− tag twice", "+ tag", "+ watch"}; !slices.Equal(lines, want) {
		t.Errorf("difference %q, want %q", lines, want)
	}
	if values, _ := two.fields(path + "/edit"); values.Get("content") != "build\r\ntag\r\npush\r\nwatch\r\n" {
		t.Errorf("the form has %q", values.Get("content"))
	}
	one.open(path+"/edit").submit(path+"/edit", map[string]string{"content": "third"})
	if two.submit(path+"/edit", nil); two.code != http.StatusConflict {
		t.Errorf("another conflict: %d", two.code)
	}
	if two.submit(path+"/edit", nil); two.at != path || r.content("deploy") != "build\ntag\npush\nwatch\n" {
		t.Errorf("resolved: %s, %q", two.at, r.content("deploy"))
	}
}

// TestHistoryPages compares a note with an earlier version, and restores it, also after
// its removal.
func TestHistoryPages(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	path := r.remember("deploy", "version 1", "ship")
	for n := 2; n <= 60; n++ {
		r.remember("deploy", fmt.Sprint("version ", n))
	}
	p.open(path).follow("History")
	versions := p.links(path + "/history/")
	if len(versions) != pageSize {
		t.Fatalf("%d versions", len(versions))
	}
	p.follow("Older changes")
	if versions = append(versions, p.links(path+"/history/")...); len(versions) != 60 {
		t.Errorf("%d versions", len(versions))
	}
	if p.open(versions[0]); !strings.Contains(p.text, "This is the present text.") {
		t.Errorf("the newest: %s", p.text)
	}
	p.open(versions[59])
	if !strings.Contains(p.text, "<code>version 60</code>") || !strings.Contains(p.text, "<code>version 1</code>") {
		t.Errorf("difference: %s", p.text)
	}
	r.remember("deploy", "changed")
	if p.submit(versions[59], nil); p.code != http.StatusConflict {
		t.Errorf("restore over a change: %d", p.code)
	}
	p.open(versions[59]).submit(versions[59], nil)
	if e, _ := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "deploy"}); e.Content != "version 1" || !slices.Equal(e.Aliases, []string{"ship"}) {
		t.Errorf("restored %+v", e)
	}
	if _, err := op.Forget.Do(t.Context(), r.daemon, op.Removal{Name: "deploy"}); err != nil {
		t.Fatal(err)
	}
	p.open(path + "/history")
	removed := p.links(path + "/history/")[0]
	if p.open(removed); !strings.Contains(p.text, "this is the text before the removal") {
		t.Errorf("the removal: %s", p.text)
	}
	r.remember("deploy", "another note")
	if p.submit(removed, nil); p.code != http.StatusConflict || !strings.Contains(p.text, "another entry has the name") {
		t.Errorf("restore over another note: %d", p.code)
	}
	if _, err := op.Forget.Do(t.Context(), r.daemon, op.Removal{Name: "deploy"}); err != nil {
		t.Fatal(err)
	}
	if p.open(removed).submit(removed, nil); p.at != "/ui/memories/3" || r.content("deploy") != "version 1" {
		t.Errorf("restored a removed note: %s, %q", p.at, r.content("deploy"))
	}
	big := strings.Repeat("line\n", maxCompared/5+1)
	path = r.remember("big", big)
	r.remember("big", "small")
	p.open(path + "/history")
	if p.open(p.links(path + "/history/")[1]); !strings.Contains(p.text, "too long for a comparison") {
		t.Error("a long text was compared")
	}
}

// TestRefusedTexts: a text that the daemon refuses stays in the form, and the store keeps
// its texts. An earlier version is restored as it was.
func TestRefusedTexts(t *testing.T) {
	const secret = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"
	r := newRig(t)
	p := r.visitor()
	path := r.remember("deploy", "by hand")
	for what, content := range map[string]string{"secret": "the token " + secret, "blank": " "} {
		p.open("/ui/new").submit("/ui/new", map[string]string{"name": "new", "content": content})
		if p.code != http.StatusUnprocessableEntity || !strings.Contains(p.text, content) {
			t.Errorf("%s, new: %d %s", what, p.code, p.text)
		}
		p.open(path+"/edit").submit(path+"/edit", map[string]string{"content": content})
		if p.code != http.StatusUnprocessableEntity || !strings.Contains(p.text, content) {
			t.Errorf("%s, changed: %d %s", what, p.code, p.text)
		}
		if got := r.content("deploy"); got != "by hand" {
			t.Errorf("%s: the note is %q", what, got)
		}
		if _, err := op.ReadEntry(t.Context(), r.daemon, op.EntryName{Name: "new"}); !errors.Is(err, crmem.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	exact := &client.Client{Addr: r.daemon.Addr, Header: op.Header{AllowSecrets: true}}
	defer exact.Close()
	if _, err := op.Remember.Do(t.Context(), exact, op.Note{Remember: crmem.Remember{Name: "deploy", Content: secret}}); err != nil {
		t.Fatal(err)
	}
	r.remember("deploy", "by hand again")
	versions := p.open(path).follow("History").links(path + "/history/")
	p.open(versions[1]).submit(versions[1], nil)
	if got := r.content("deploy"); got != secret {
		t.Errorf("restored %q, %s", got, p.text)
	}
}
