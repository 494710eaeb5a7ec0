package links

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// hostile are names that would change a graph if they were written as they are.
var hostile = []string{
	"plain", "two words", " ", " lead", "trail ", `quote " end`, `back\slash \N \G \n \l`, `\`, `a"]; evil [label="x`, "line\nend", "cr\r\ttab", "--> n1", "->", "n1 --> n2",
	"]", "[[x]]", "{a}|b|<c>", "<b>bold</b>", "<script>alert(1)</script>", "&lt;", "&#60;", "#35;", "#quot;", "%%{init: {\"theme\": \"dark\"}}%%", "%% comment", "`code`",
	"1. item", "- item", "# head", "**bold** _it_", "end", "style a fill:#f00;", "classDef x fill:#f00;", "click n1 href \"x\"", "; drop", "a;b", "\x01\x1b[31m\x7f", "\u202eevil\u2066", "\u0085\u2028",
	"日本語 ü é e\u0301 👩\u200d🚀", "ﬂ°°35¶ß", "\ufffd\ufffe\uffff", strings.Repeat("long ", 40), strings.Repeat("\"", 90), "http://example.com/?a=b&c=d", "}", "'", "/* x", "// x", "@{ shape: x }", "n1:::x", "graph", "\\\"",
}

// hostileGraph has a node of each shape for each hostile name, and edges.
func hostileGraph() *Graph {
	g := &Graph{}
	for i, name := range hostile {
		sh := shapes[i%len(shapes)]
		n := Node{ID: uint64(i + 1), Name: name, Type: sh.name, Superseded: i%3 == 0}
		if sh.name == "archive" {
			n.Kind, n.Type = crmem.Archive, "fact"
		}
		g.Nodes = append(g.Nodes, n)
		g.Edges = append(g.Edges, Edge{n.ID, uint64(i/2 + 1), metadata.Relations[i%len(metadata.Relations)]})
	}
	return g
}

func TestLabel(t *testing.T) {
	for name, want := range map[string]string{
		"deploy": "deploy", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, "\u202ea": `"\u202ea"`, "a\"b": "a\"b",
		strings.Repeat("ü", 81): strings.Repeat("ü", 79) + "…", strings.Repeat("ü", 80): strings.Repeat("ü", 80),
	} {
		if got := label(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestDOT draws hostile names with Graphviz and compares the texts of the picture with
// the names.
func TestDOT(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "dot") {
			t.Fatal("CRABMEM_REQUIRE=dot, but dot is not on the PATH")
		}
		t.Skip("SKIPPED: dot is not on the PATH (apt install graphviz)")
	}
	g := hostileGraph()
	var text, svg, diag bytes.Buffer
	if err := g.WriteDOT(&text); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dot, "-Tsvg")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text.Bytes()), &svg, &diag
	if err := cmd.Run(); err != nil || strings.Contains(diag.String(), "syntax error") {
		t.Fatalf("dot: %v\n%s\n%s", err, diag.String(), text.String())
	}
	var picture struct {
		Groups []struct {
			Class string   `xml:"class,attr"`
			Title string   `xml:"title"`
			Texts []string `xml:"text"`
			Links []struct {
				Texts []string `xml:"text"`
			} `xml:"a"`
		} `xml:"g>g"`
	}
	if err := xml.Unmarshal(svg.Bytes(), &picture); err != nil {
		t.Fatal(err)
	}
	nodes, edges := make(map[string]string), make(map[string]int)
	for _, x := range picture.Groups {
		switch x.Class {
		case "node":
			nodes[x.Title] = strings.ReplaceAll(strings.Join(x.Texts, "\n"), "\u00a0", " ")
		case "edge":
			edges[x.Title+" "+strings.Join(x.Texts, "\n")]++
		}
	}
	for _, n := range g.Nodes {
		if got, want := nodes["n"+strconv.FormatUint(n.ID, 10)], label(n.Name); got != want {
			t.Errorf("%q: the picture contains %q, want %q", n.Name, got, want)
		}
	}
	for _, e := range g.Edges {
		if edges["n"+strconv.FormatUint(e.From, 10)+"->n"+strconv.FormatUint(e.To, 10)+" "+e.Relation] != 1 {
			t.Errorf("the picture does not contain the edge %v", e)
		}
	}
	if len(nodes) != len(g.Nodes) || len(picture.Groups) != len(g.Nodes)+len(g.Edges) {
		t.Errorf("%d nodes of %d; %d groups", len(nodes), len(g.Nodes), len(picture.Groups))
	}
	if n := strings.Count(svg.String(), "stroke-dasharray"); n < len(g.Nodes)/3 {
		t.Errorf("%d dashed lines for %d superseded nodes", n, len(g.Nodes)/3)
	}
	t.Logf("%d hostile names checked", len(nodes))
}

// TestMermaid checks that each line of a flowchart is one node or edge, and that the
// entities in it give the names.
func TestMermaid(t *testing.T) {
	g := hostileGraph()
	var text bytes.Buffer
	if err := g.WriteMermaid(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if want := 1 + len(g.Nodes) + len(g.Edges) + 3; len(lines) != want || lines[0] != "flowchart LR" {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), want, text.String())
	}
	node := regexp.MustCompile(`^    n(\d+)(\W+)"((?:[\p{L}\p{M}\p{Nd} ]|#\d+;)+)"(\W+)$`)
	entity := regexp.MustCompile(`#(\d+);`)
	for i, n := range g.Nodes {
		m := node.FindStringSubmatch(lines[i+1])
		if m == nil || m[1] != strconv.FormatUint(n.ID, 10) {
			t.Errorf("%q: %s", n.Name, lines[i+1])
			continue
		}
		got := entity.ReplaceAllStringFunc(m[3], func(s string) string {
			r, err := strconv.Atoi(s[1 : len(s)-1])
			if err != nil {
				t.Fatal(err)
			}
			return string(rune(r))
		})
		if sh := shapeOf(&n); got != label(n.Name) || m[2] != sh.mermaidFrom || m[4] != sh.mermaid {
			t.Errorf("%q: %s", n.Name, lines[i+1])
		}
	}
	edge := regexp.MustCompile(`^    n\d+ -->\|"(\w|#95;)+"\| n\d+$`)
	for i := range g.Edges {
		if line := lines[1+len(g.Nodes)+i]; !edge.MatchString(line) {
			t.Errorf("edge %d: %s", i, line)
		}
	}
}
