package importer

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestHostileChats reads malicious exports.
func TestHostileChats(t *testing.T) {
	node := func(id, parent, text string) string {
		return fmt.Sprintf(`%q:{"parent":%q,"message":{"author":{"role":"user"},"content":{"parts":[%q]}}}`, id, parent, text)
	}
	gpt := func(id, current string, nodes ...string) string {
		return fmt.Sprintf(`{"conversation_id":%q,"current_node":%q,"mapping":{%s}}`, id, current, strings.Join(nodes, ","))
	}
	many := make([]string, 20_000)
	for i := range many {
		many[i] = node(fmt.Sprint(i+1), fmt.Sprint(i), "x")
	}
	parts := `["` + strings.Repeat(`x","`, 300_000) + `"]`
	cases := []struct {
		name, kind, text string
		items            int    // of the first conversation
		left             string // a reason that is counted
		err              string // of the reading, or of the first conversation
	}{
		{"a circle", ChatGPT, gpt("a", "2", node("1", "2", "one"), node("2", "1", "two")), 2, "has a cycle", ""},
		{"its own parent", ChatGPT, gpt("a", "1", node("1", "1", "one")), 1, "has a cycle", ""},
		{"no such parent", ChatGPT, gpt("a", "1", node("1", "gone", "one")), 1, "node is missing", ""},
		{"no current node", ChatGPT, gpt("a", "gone", node("1", "", "one"), node("2", "1", "two")), 2, "no current node", ""},
		{"a long branch", ChatGPT, gpt("a", "20000", many...), 20_000, "", ""},
		{"many parts", ChatGPT, `{"id":"a","current_node":"1","mapping":{"1":{"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":` + parts + `}}}}}`, 1, "", ""},
		{"no id", ChatGPT, gpt("", "1", node("1", "", "one")), 1, "", "no usable ID"},
		{"an id with a line", Claude, `{"uuid":"a\nb","chat_messages":[{"sender":"human","text":"x"}]}`, 1, "", "no usable ID"},
		{"an id that is long", Claude, `{"uuid":"` + strings.Repeat("a", 300) + `","chat_messages":[{"sender":"human","text":"x"}]}`, 1, "", "no usable ID"},
		{"the wrong types", Claude, `{"uuid":"a","name":7,"created_at":{},"chat_messages":{"sender":"human"}}`, 0, "messages are not a list", "no messages"},
		{"messages of the wrong types", Claude, `{"uuid":"a","chat_messages":[7,{"sender":"root","text":"x"},{"sender":"human","text":"x","content":"y","files":7}]}`, 1, "not an object", ""},
		{"a tree of the wrong types", ChatGPT, `{"id":"a","mapping":{"a":7,"b":{"message":[]}}}`, 0, "not an object", "no messages"},
		{"a lone surrogate", Claude, `{"uuid":"a","chat_messages":[{"sender":"human","text":"\ud83d"}]}`, 1, "lone surrogate, replaced by U+FFFD", ""},
		{"no UTF-8", Claude, "{\"uuid\":\"a\xff\",\"chat_messages\":[]}", 0, "", "invalid UTF-8"},
		{"no object", Claude, `[7]`, 0, "", "want an object"},
		{"two values", Claude, `[] {}`, 0, "", "more than one value"},
		{"an end too soon", Claude, `[{"uuid":"a"}`, 0, "", "unexpected EOF"},
		{"nothing", Claude, ``, 0, "", "empty"},
		{"deep", Claude, strings.Repeat("[", 100_000), 0, "", "exceeded max depth"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var chats []*Chat
			began := time.Now()
			list, err := ReadChats(c.kind, strings.NewReader(c.text), func(h *Chat) error {
				chats = append(chats, h)
				return nil
			})
			gate.Time(t, "read", began, time.Minute)
			if len(chats) > 0 {
				if err == nil {
					err = chats[0].Err
				}
				if n := len(chats[0].Items); n != c.items {
					t.Errorf("%d messages, want %d", n, c.items)
				}
			}
			if c.left != "" && left(list, c.left) == 0 {
				t.Errorf("left out %+v, and not %s", list, c.left)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
	chats := 0
	_, err := ReadChats(ChatGPT, strings.NewReader("["+gpt("a", "1", node("1", "", "x"))+","+gpt("a", "1", node("1", "", "y"))+"]"), func(h *Chat) error {
		if h.Err == nil {
			chats++
		}
		return nil
	})
	if err != nil || chats != 2 { // the import compares them
		t.Errorf("of two conversations of one id %d are taken, %v", chats, err)
	}
}

// TestHostileMemories reads malicious lists of memories.
func TestHostileMemories(t *testing.T) {
	cases := []struct {
		name, text string
		notes      int
		left       string
		err        string
	}{
		{"wrong types", `[7,{"id":{},"memory":7},{"id":7,"memory":"x","metadata":[[[]]],"created_at":{}}]`, 1, "invalid record", ""},
		{"no ids", `[{"memory":"x"},{"memory":"x"},{"memory":"y"}]`, 2, "no ID", ""},
		{"one id", `[{"id":"a","memory":"x"},{"id":"a","memory":"x"},{"id":"a","memory":"y"},{"id":"a#2","memory":"z"}]`, 3, "duplicate", ""},
		{"a long id", `[{"id":"` + strings.Repeat("a", 2000) + `","memory":"x"}]`, 0, "too long", ""},
		{"a large text", `[{"id":"a","memory":"` + strings.Repeat("a", 9<<20) + `"}]`, 0, "larger than a note", ""},
		{"NUL", `[{"id":"a","memory":"x\u0000y"}]`, 1, "", ""},
		{"a name of controls", `[{"id":"a","memory":"\u001b[2J\u0007 boo"}]`, 1, "", ""},
		{"no UTF-8", "[{\"id\":\"a\",\"memory\":\"\xff\"}]", 0, "invalid UTF-8", ""},
		{"relations of the wrong types", `{"results":[],"relations":[7]}`, 0, "relations", ""},
		{"more pages", `{"results":[],"next":"http://x/?page=2"}`, 0, "", ""},
		{"no JSON", `memory`, 0, "", "invalid character"},
		{"a half", `{"results":[{"id":`, 0, "", "unexpected EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := ReadMem0(strings.NewReader(c.text))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if len(m.Notes) != c.notes || c.left != "" && left(m.Left, c.left) == 0 {
				t.Errorf("%d notes, left out %+v", len(m.Notes), m.Left)
			}
			if c.name == "more pages" && len(m.Manual) != 1 {
				t.Errorf("manual steps %q", m.Manual)
			}
			s := crmem.New(nil)
			apply(t, s, planOf(t, m, s, Refuse).Ops)
			if p := planOf(t, m, s, Refuse); len(p.Ops)+len(p.Conflicts) > 0 {
				t.Errorf("again %+v", p)
			}
		})
	}
}

// TestHostileTrees reads trees with links to other places and false claims.
func TestHostileTrees(t *testing.T) {
	long := strings.Repeat("n", 2000)
	disk := faultfs.NewMem()
	put := func(name, text string) {
		t.Helper()
		dir := name[:strings.LastIndex(name, "/")]
		if err := vfs.MkdirAll(disk, dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disk.WriteFile(name, []byte(text), 0o600)
	}
	put("/t/large.md", strings.Repeat("x", 9<<20))
	put("/t/invalid.md", "\xff\xfe")
	put("/t/title.md", "---\ntitle: "+long+"\n---\nx")
	put("/t/control.md", "---\ntitle: \"a\\u0000b\\e[2J\"\ntags: [\"\\u0000\", \""+long+"\"]\n---\nx")
	put("/t/traverse.md", "---\ntitle: ../../etc/passwd\npermalink: /../..\n---\nx")
	put("/t/bomb.md", "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\ntags: *c\n---\nx")
	put("/t/self.md", "---\na: &a [*a]\n---\nx")
	put("/t/front.md", "---\n"+strings.Repeat("a: b\n", 40_000)+"---\nx")
	put("/t/deep"+strings.Repeat("/d", 40)+"/x.md", "too deep")
	put("/t/CASE.md", "---\ntitle: same\n---\none")
	put("/t/case.md", "---\ntitle: same\n---\ntwo")
	for _, kind := range []string{BasicMemory, RFC0038} {
		t.Run(kind, func(t *testing.T) {
			read := func() (*Memory, error) { return ReadMarkdown(kind, disk, "/t", nil) }
			if kind == RFC0038 {
				read = func() (*Memory, error) { return ReadRFC0038(disk, "/r", nil) }
				if err := disk.Mkdir("/r", 0o700); err != nil {
					t.Fatal(err)
				}
				if err := disk.Rename("/t", "/r/entries"); err != nil {
					t.Fatal(err)
				}
			}
			m, err := read()
			if err != nil {
				t.Fatal(err)
			}
			for _, reason := range []string{"larger than 8 MiB", "not UTF-8", "deeper than"} {
				if left(m.Left, reason) != 1 {
					t.Errorf("omissions %+v do not contain %s", m.Left, reason)
				}
			}
			if len(m.Notes) != 8 {
				t.Errorf("%d notes", len(m.Notes))
			}
			s := crmem.New(nil)
			apply(t, s, planOf(t, m, s, Refuse).Ops)
			if p := planOf(t, m, s, Refuse); len(p.Ops)+len(p.Conflicts) > 0 {
				t.Errorf("again %+v", p)
			}
			for e := range s.All() {
				if strings.ContainsAny(e.Name, "\x00\x1b\n") || len(e.Name) > crmem.MaxName {
					t.Errorf("a note %q", e.Name)
				}
			}
			if kind == BasicMemory && !strings.Contains(exported(s), long) {
				t.Error("a long title is lost")
			}
		})
	}
}

func TestHostileArchives(t *testing.T) {
	pack := func(files ...string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i := 0; i+1 < len(files); i += 2 {
			w, err := z.Create(files[i])
			if err == nil {
				_, err = io.WriteString(w, files[i+1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	chat := `[{"uuid":"a","chat_messages":[{"sender":"human","text":"x"}]}]`
	lying := pack("conversations.json", chat+strings.Repeat(" ", 1<<20))
	cases := []struct {
		name  string
		b     []byte
		chats int
		left  string
		err   string
	}{
		{"as it is", pack("conversations.json", chat, "users.json", "[]"), 1, "another file", ""},
		{"in a directory", pack("export/conversations.json", chat), 1, "", ""},
		{"in parts", pack("conversations-000.json", chat, "conversations-001.json", strings.ReplaceAll(chat, `"a"`, `"b"`)), 2, "", ""},
		{"a path that leads out", pack("../conversations.json", chat, "/etc/passwd", "x"), 1, "another file", ""},
		{"nothing in it", pack("x.json", "[]"), 0, "", "no conversations.json"},
		{"no archive", []byte("PK\x03\x04 and no more"), 0, "", "not a valid zip"},
		{"damage", bytes.Replace(lying, []byte("conversations.json\x00"), []byte("conversations.json\x01"), 1)[:len(lying)/2], 0, "", "zip"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			disk := faultfs.NewMem()
			disk.WriteFile("/x.zip", c.b, 0o600)
			f, err := Open(disk, Claude, "/x.zip")
			chats := 0
			if err == nil {
				err = f.Each(nil, func(r io.Reader) error {
					_, err := ReadChats(Claude, r, func(h *Chat) error { chats++; return h.Err })
					return err
				})
				if c.left != "" && left(f.Left, c.left) == 0 {
					t.Errorf("left out %+v", f.Left)
				}
				f.Close()
			}
			if chats != c.chats || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d conversations, %v; want %d, %q", chats, err, c.chats, c.err)
			}
		})
	}
}

// endless is a list of memories without an end.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	b := []byte("7,7,7,7,7,7,7,7,")
	if e.n == 0 {
		b = append([]byte("["), b...)
	}
	e.n++
	return copy(p, b), nil
}

func TestEndless(t *testing.T) {
	if _, err := ReadMem0(&endless{}); err == nil || !strings.Contains(err.Error(), "more than 1000000 records") {
		t.Error(err)
	}
	if _, err := ReadMem0(&counted{strings.NewReader(strings.Repeat("[", 100)), 10, sizeError("x", 1)}); err == nil {
		t.Error("no error at a limit")
	}
}
