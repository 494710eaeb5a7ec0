package mcp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
)

// TestReportsOfTexts compares how texts of a server are shown and cut, which names can
// be called, and what is said of a schema.
func TestReportsOfTexts(t *testing.T) {
	var r golden.Reports
	texts := []string{"", "a", " a \n b\t", "a\u200bb\u00adc", "<tag>&</tag>", "\xff\xfe", "a\xffb", "é", "日本語", "😀", "a\x00b\x1bc", "\u2028x\u0085y", "x\ufffdy", strings.Repeat("日", 10), strings.Repeat("ab ", 500)}
	for _, text := range texts {
		report := fmt.Sprintf("%q", oneLine(text))
		for n := range 14 {
			report += fmt.Sprintf(" %q %q", clip(text, n), data(text, n))
		}
		r.Add(fmt.Sprintf("%.30q", text), report)
	}
	for c := rune(0); c < 0x100; c++ {
		r.Addf(fmt.Sprintf("name with %q", c), "%v %v", callable("a"+string(c)), callable(string([]byte{byte(c)})))
	}
	for _, n := range []int{0, 1, maxToolName - 1, maxToolName, maxToolName + 1} {
		r.Addf(fmt.Sprintf("name of %d", n), "%v", callable(strings.Repeat("n", n)))
	}
	for _, n := range []int{-1, 0, 1} {
		r.Addf(fmt.Sprintf("schema of the limit %+d", n), "%d", len(schemaOf(strings.Repeat("x", maxSchema-2+n))))
	}
	r.Addf("other schemas", "%q %q %q", schemaOf(nil), schemaOf(func() {}), schemaOf(map[string]any{"type": "object"}))
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		properties := map[string]any{}
		var required []string
		for i := range random.IntN(5) {
			name := fmt.Sprintf("p%d", i)
			p := map[string]any{}
			if random.IntN(2) == 0 {
				p["type"] = []any{"string", "integer", []string{"a", "b"}, 3}[random.IntN(4)]
			}
			if random.IntN(2) == 0 {
				p["description"] = strings.Repeat("text <x> ", random.IntN(20)) + strings.Repeat("é", random.IntN(70))
			}
			if random.IntN(3) == 0 {
				p["enum"] = []any{"a", 1, nil, map[string]any{"<": ">"}}[:1+random.IntN(4)]
			}
			if random.IntN(2) == 0 {
				required = append(required, name)
			}
			properties[name] = p
		}
		b, err := json.Marshal(map[string]any{"properties": properties, "required": required})
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(10) == 0 {
			b = b[:len(b)-1]
		}
		r.Add(fmt.Sprintf("%.200s %d", b, len(b)), arguments(b))
	}
	r.Compare(t, "testdata/reports/texts.txt.gz")
}

// TestReportsOfNames compares which tools a name means, and the list of them.
func TestReportsOfNames(t *testing.T) {
	var r golden.Reports
	servers := []*server{{Server: Server{Name: "a"}}, {Server: Server{Name: "b"}}, {Server: Server{Name: "a__b"}}}
	var all []listed
	for i, name := range []string{"x", "x", "y", "b__x", "x", "z__y", "long"} {
		l := listed{server: servers[i%3], remote: remote{name: name, description: []string{"", "does it ", "text"}[i%3]}, label: name}
		if i%2 == 0 {
			l.label = l.qualified()
			l.schema = []byte(`{"properties":{"p":{"type":"string"}}}`)
		}
		all = append(all, l)
	}
	for _, name := range []string{"", "x", "y", "a__x", "b__x", "a__b__x", "a__b__y", "z__y", "a__z__y", "long", "a__long", "none"} {
		var found []string
		for _, l := range resolve(all, name) {
			found = append(found, l.qualified()+" as "+l.label)
		}
		r.Addf(fmt.Sprintf("resolve %q", name), "%q", found)
	}
	r.Add("none", describe(nil))
	r.Add("all", describe(all))
	for n := 40; n < 60; n++ {
		var many []listed
		for i := range n {
			many = append(many, listed{server: servers[0], remote: remote{name: fmt.Sprint("n", i), description: strings.Repeat("d", 1010)}, label: fmt.Sprint("n", i)})
		}
		text := describe(many)
		r.Addf(fmt.Sprint(n, " long descriptions"), "%d bytes, %s", len(text), text[max(0, len(text)-90):])
	}
	a, b := remote{"n", "d", []byte("s")}, remote{"n", "d", []byte("s")}
	for _, change := range []func(){func() {}, func() { b.name = "m" }, func() { b = a; b.description = "" }, func() { b = a; b.schema = nil }} {
		change()
		r.Addf("same", "%v %v", a.same(b), b.same(a))
	}
	r.Compare(t, "testdata/reports/names.txt.gz")
}

// TestReportsOfResources compares the part of the prompt for servers with many
// tools, and for many servers.
func TestReportsOfResources(t *testing.T) {
	var r golden.Reports
	resourcesOf := func(servers ...*server) string {
		m := New(Options{})
		defer m.Close()
		for i, s := range servers {
			s.Name = fmt.Sprintf("s%03d%s", i, s.Name)
			s.m = m
			m.components[s.Name] = s
		}
		return m.Resources(tool.Unbounded())
	}
	tools := func(prefix string, lengths ...int) *server {
		s := &server{state: up}
		for i, n := range lengths {
			s.tools = append(s.tools, remote{name: fmt.Sprintf("%s%d%s", prefix, i, strings.Repeat("n", n))})
		}
		return s
	}
	for n := range 12 {
		r.Add(fmt.Sprint("names around the limit ", n), resourcesOf(tools("a", 100, 100, 100, 80+n, 20)))
		r.Add(fmt.Sprint("last name around the limit ", n), resourcesOf(tools("a", 100, 100, 100, 83+n)))
	}
	r.Add("a long name", resourcesOf(tools("a", 500)))
	for _, st := range []state{connecting, up, down, over} {
		s := tools("a", 1)
		s.state, s.Name = st, strings.Repeat("<", 200)
		r.Add(fmt.Sprint("state ", st), resourcesOf(s))
	}
	for n := 18; n < 24; n++ {
		for more := range 40 {
			var many []*server
			for i := range n {
				many = append(many, tools(fmt.Sprint("p", i), 100, 100, 80, 80))
			}
			many = append(many, tools("last", more))
			text := resourcesOf(many...)
			r.Addf(fmt.Sprintf("%d servers and a name of %d", n, more), "%d bytes, %s", len(text), text[len(text)-30:])
		}
	}
	r.Compare(t, "testdata/reports/resources.txt.gz")
}

// TestReportsOfShapes compares how many values messages have, and which are refused.
func TestReportsOfShapes(t *testing.T) {
	var r golden.Reports
	random := rand.New(rand.NewPCG(6, 6))
	pieces := []string{"{", "[", ",", `"`, `\`, `\"`, "\n", "\r\n", "\n\n", "x", "}", "é"}
	for range 1500 {
		var b strings.Builder
		for range random.IntN(14) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		for _, events := range []bool{false, true} {
			whole, parts := shape{events: events}, shape{events: events}
			err := whole.add([]byte(b.String()))
			for i := range b.Len() {
				if perr := parts.add([]byte{b.String()[i]}); perr != nil || err != nil {
					t.Fatal(perr, err)
				}
			}
			if whole != parts {
				t.Fatalf("%q: %+v, byte by byte %+v", b.String(), whole, parts)
			}
			r.Addf(fmt.Sprintf("%q %v", b.String(), events), "%+v", whole)
		}
	}
	for _, n := range []int{maxValues - 1, maxValues, maxValues + 1} {
		s := shape{}
		r.Addf(fmt.Sprint(n, " values"), "%v", s.add([]byte(strings.Repeat(",", n))))
		s = shape{events: true}
		r.Addf(fmt.Sprint(n, " values and others"), "%v %v", s.add([]byte(strings.Repeat(",", n-1)+"\n\n")), s.add([]byte(strings.Repeat("[", n))))
	}
	r.Compare(t, "testdata/reports/shapes.txt.gz")
}

// TestPaces checks how long a server waits that sends many messages, or large ones.
func TestPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		var p pace
		var never chan struct{}
		for i, c := range []struct {
			messages, bytes int
			pause, want     time.Duration
		}{
			{1, 0, 0, 0}, {3999, 0, 0, 0}, {1, 0, 0, perMessage}, {1, 0, perMessage - 1, 1}, {0, 1 << 20, 0, perMiB}, {0, 1 << 10, 0, perMiB >> 10}, {2, 0, 0, 2 * perMessage},
			{2, 0, perMessage, perMessage}, {1, 0, time.Minute, 0}, {4000, 0, 0, perMessage}, {0, 32 << 20, time.Minute, 0}, {0, 1 << 20, 0, perMiB},
		} {
			time.Sleep(c.pause)
			began := time.Now()
			if ok := p.wait(c.messages, c.bytes, never); !ok || time.Since(began) != c.want {
				t.Errorf("wait %d: %v after %v, want %v", i, ok, time.Since(began), c.want)
			}
		}
		done := make(chan struct{})
		close(done)
		if began := time.Now(); p.wait(1000, 0, done) || time.Since(began) != 0 {
			t.Errorf("a wait that ended took %v", time.Since(began))
		}
	})
}
