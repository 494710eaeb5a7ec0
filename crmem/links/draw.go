package links

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// A shape draws the entries of one kind or type.
type shape struct {
	name                 string
	dot                  string
	mermaidFrom, mermaid string // before and after the label
}

// shapes are those of archives and of the types of metadata. The last one is for all
// other entries.
var shapes = []shape{
	{"archive", "cylinder", "[(", ")]"},
	{"fact", "box", "[", "]"},
	{"preference", "ellipse", "([", "])"},
	{"decision", "hexagon", "{{", "}}"},
	{"identity", "house", "[/", "\\]"},
	{"event", "cds", ">", "]"},
	{"observation", "note", "[/", "/]"},
	{"goal", "octagon", "[[", "]]"},
	{"todo", "component", "[\\", "\\]"},
	{"", "box", "(", ")"},
}

// shapeOf returns the shape of a node.
func shapeOf(n *Node) *shape {
	name := n.Type
	if n.Kind == crmem.Archive {
		name = "archive"
	}
	for i := range shapes {
		if strings.EqualFold(shapes[i].name, name) && (name != "archive" || n.Kind == crmem.Archive) {
			return &shapes[i]
		}
	}
	return &shapes[len(shapes)-1]
}

// WriteDOT writes the graph in the language of Graphviz. The shape of a node is that
// of its kind or type. A superseded entry is dashed, a link contradicts is red.
func (g *Graph) WriteDOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteString("digraph crabmem {\n\tgraph [rankdir=LR, pack=true, packmode=array_u, charset=\"UTF-8\"];\n\tnode [fontname=\"sans-serif\"];\n\tedge [fontname=\"sans-serif\", fontsize=10];\n")
	for i := range g.Nodes {
		n := &g.Nodes[i]
		sh := shapeOf(n)
		var styles []string
		if sh.name == "" {
			styles = append(styles, "rounded")
		}
		if n.Superseded {
			styles = append(styles, "dashed")
		}
		style := ""
		if styles != nil {
			style = fmt.Sprintf(", style=%q", strings.Join(styles, ","))
		}
		fmt.Fprintf(b, "\tn%d [label=\"%s\", shape=%s%s];\n", n.ID, dotText(n.Name), sh.dot, style)
	}
	for _, e := range g.Edges {
		color := ""
		if e.Relation == metadata.Contradicts {
			color = ", color=red"
		}
		fmt.Fprintf(b, "\tn%d -> n%d [label=\"%s\"%s];\n", e.From, e.To, dotText(e.Relation), color)
	}
	b.WriteString("}\n")
	return b.Flush()
}

// WriteMermaid writes the graph as a flowchart of Mermaid, with the shapes and
// styles of [Graph.WriteDOT].
func (g *Graph) WriteMermaid(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteString("flowchart LR\n")
	var superseded, red []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		sh := shapeOf(n)
		fmt.Fprintf(b, "    n%d%s\"%s\"%s\n", n.ID, sh.mermaidFrom, mermaidText(n.Name), sh.mermaid)
		if n.Superseded {
			superseded = append(superseded, fmt.Sprintf("n%d", n.ID))
		}
	}
	for i, e := range g.Edges {
		fmt.Fprintf(b, "    n%d -->|\"%s\"| n%d\n", e.From, mermaidText(e.Relation), e.To)
		if e.Relation == metadata.Contradicts {
			red = append(red, strconv.Itoa(i))
		}
	}
	if superseded != nil {
		b.WriteString("    classDef superseded stroke-dasharray:5\n    class " + strings.Join(superseded, ",") + " superseded\n")
	}
	if red != nil {
		b.WriteString("    linkStyle " + strings.Join(red, ",") + " stroke:red\n")
	}
	return b.Flush()
}

// maxLabel is the largest number of characters of a name in a label.
const maxLabel = 80

// label returns the name of a node on one line, without characters that change the
// text around them. A name with such characters is in quotes, with escapes as in Go.
func label(name string) string {
	short := clip.Chars(name, maxLabel)
	if short == "" || strings.TrimSpace(short) != short || strings.ContainsFunc(short, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(short)
	}
	return short
}

// dotText returns a name for a text in double quotes of DOT. Graphviz replaces escapes
// after a backslash and HTML entities in it.
func dotText(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(label(name))
}

// mermaidText returns a name for a text in double quotes of Mermaid: with an entity
// for each character that Mermaid, Markdown, or HTML could interpret.
func mermaidText(name string) string {
	var b strings.Builder
	for _, r := range label(name) {
		if r == ' ' && b.Len() > 0 || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
