package tree

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// A page is one entry as a Markdown file: a block of HTML with the name as heading
// and the metadata, an empty line, and the content.
//
//	<div id="meta">
//	<h1>deploy</h1>
//	<dl>
//	  <dt>Created</dt>
//	  <dd><time datetime="2026-04-14T10:23:45Z">2026-04-14T10:23:45Z</time></dd>
//	  <dt>Aliases</dt>
//	  <dd>
//	    <ul>
//	      <li>ship</li>
//	    </ul>
//	  </dd>
//	  <dt>ID</dt>
//	  <dd>7</dd>
//	</dl>
//	</div>
//
// The reference defines Created and Aliases. The heading and the other rows are
// extensions. The heading is a copy of the name for readers, which load ignores.
//
//	ID                      the entry's id
//	Name                    the exact name, if the file's stem differs
//	Created, unix seconds   the time, if the date cannot represent it (from year 10000 on)
//	Aliases, exact          the list, if an HTML reader that trims would change it
//	Metadata                the fields of the content's front matter, a copy that load ignores
//	Content                 how to read the content, if the reference's rule (without blank
//	                        lines before and white space after) would change it: see bodyRule
//
// Name and exact aliases are JSON strings, so that every character survives
// HTML and an editor and is visible. With exact aliases the reference's list is
// in a comment, unescaped as the reference requires. Unlike the block, a
// comment may contain blank lines.
const (
	metaOpen  = `<div id="meta">`
	metaClose = `</div>`

	rowCreated = "Created"
	rowAliases = "Aliases"
	rowID      = "ID"
	rowName    = "Name"
	rowSeconds = "Created, unix seconds"
	rowExact   = "Aliases, exact"
	rowContent = "Content"
	rowFields  = "Metadata"
)

// escapeHTML escapes the characters that the reference escapes. The reference
// unescapes no others.
var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// escapeShown escapes text outside the rows that the reference defines. The reference
// searches the block for datetime=", and mdbook searches it for two braces.
var escapeShown = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "{{", "{&#123;").Replace

// isoTime returns the date that a page shows.
func isoTime(t crmem.UnixTime) string { return min(t, crmem.MaxDate).String() }

// appendPage renders the page of an entry. stem is the file's stem.
func appendPage(b []byte, e *crmem.Entry, stem string) []byte {
	iso := isoTime(e.CreatedAt)
	b = fmt.Appendf(b, "%s\n<h1>%s</h1>\n<dl>\n", metaOpen, escapeShown(shownName(e.Name)))
	b = fmt.Appendf(b, "  <dt>%s</dt>\n  <dd><time datetime=\"%s\">%s</time></dd>\n", rowCreated, iso, iso)
	exact := false
	for _, a := range e.Aliases {
		exact = exact || !plainAlias(a)
	}
	if !exact && len(e.Aliases) > 0 {
		b = appendList(b, rowAliases, e.Aliases, escapeHTML)
	}
	b = appendRow(b, rowID, strconv.FormatUint(e.ID, 10))
	if e.Name != stem {
		b = appendRow(b, rowName, jsonText(e.Name))
	}
	if e.CreatedAt > crmem.MaxDate {
		b = appendRow(b, rowSeconds, strconv.FormatUint(uint64(e.CreatedAt), 10))
	}
	if exact {
		b = appendList(b, rowExact, e.Aliases, jsonText)
	}
	b = appendFields(b, e.Content)
	rule := bodyRuleOf(e.Content)
	if rule != (bodyRule{}) {
		b = appendRow(b, rowContent, rule.String())
	}
	b = append(b, "</dl>\n"...)
	if exact {
		b = append(b, "\n<!--\n"...)
		b = appendList(b, rowAliases, e.Aliases, escapeHTML)
		b = append(b, "-->\n\n"...)
	}
	b = append(b, metaClose+"\n\n"...)
	b = append(b, e.Content...)
	if b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	return b
}

// appendFields appends the row with the fields of the content's front matter. For its
// class, crabmem.css hides the front matter itself, which Markdown shows as a heading.
func appendFields(b []byte, content string) []byte {
	m, _, ok := metadata.Parse(content)
	if !ok {
		return b
	}
	b = append(b, "  <dt class=\"front-matter\">"+rowFields+"</dt>\n  <dd>\n    <ul>\n"...)
	for _, f := range m.Fields() {
		if f.Key != metadata.Adopted {
			b = fmt.Appendf(b, "      <li>%s: %s</li>\n", escapeShown(f.Key), escapeShown(strings.Join(f.Values, ", ")))
		}
	}
	return append(b, "    </ul>\n  </dd>\n"...)
}

func appendRow(b []byte, title, html string) []byte {
	return fmt.Appendf(b, "  <dt>%s</dt>\n  <dd>%s</dd>\n", title, html)
}

func appendList(b []byte, title string, items []string, escape func(string) string) []byte {
	b = fmt.Appendf(b, "  <dt>%s</dt>\n  <dd>\n    <ul>\n", title)
	for _, s := range items {
		b = fmt.Appendf(b, "      <li>%s</li>\n", escape(s))
	}
	return append(b, "    </ul>\n  </dd>\n"...)
}

// plainAlias reports whether an alias in a list item is read back unchanged.
func plainAlias(a string) bool {
	return a != "" && a == strings.TrimSpace(a) && !strings.ContainsAny(a, "\n\r\x00") && !strings.Contains(a, "{{")
}

// jsonText writes s as a JSON string in HTML. It escapes two braces, which
// mdbook expands as a directive anywhere in a page.
func jsonText(s string) string {
	b, err := format.MarshalJSON(s)
	if err != nil {
		panic("tree: internal error: a string has no JSON: " + err.Error())
	}
	return escapeHTML(strings.ReplaceAll(string(b), "{{", `{\u007b`))
}

// unquoteText reads a row's text: a JSON string, or plain text that a person
// wrote.
func unquoteText(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	var s string
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "", fmt.Errorf("%s begins with a quotation mark but is not a JSON string: %w", quoted(text), err)
	}
	return s, nil
}

// quoted quotes the start of a text for an error.
func quoted(s string) string {
	if len(s) > 80 {
		return strconv.Quote(clip.Bytes(s, 80)) + "…"
	}
	return strconv.Quote(s)
}

// bodyRule is the Content row: it defines the content of the text after the
// block. Without the row the reference's rule applies, as people expect of a
// text file: blank lines before the content and white space after it do not
// count. With the row every byte after the one empty line counts, so that an
// edited page keeps white space at the edges.
type bodyRule struct {
	verbatim bool // the Content row exists
	open     bool // the last line end belongs to the page, not to the content
	crlf     bool // the content contains CRLF line ends
}

func bodyRuleOf(content string) bodyRule {
	crlf := strings.Contains(content, "\r\n")
	if !crlf && looseBody(content) == content {
		return bodyRule{}
	}
	return bodyRule{verbatim: true, open: !strings.HasSuffix(content, "\n"), crlf: crlf}
}

func (r bodyRule) String() string {
	s := "verbatim"
	if r.open {
		s += ", no final newline"
	}
	if r.crlf {
		s += ", CRLF"
	}
	return s
}

func parseBodyRule(text string) (bodyRule, error) {
	var r bodyRule
	for word := range strings.SplitSeq(text, ",") {
		switch word = strings.TrimSpace(word); word {
		case "verbatim":
			r.verbatim = true
		case "no final newline":
			r.open = true
		case "CRLF":
			r.crlf = true
		default:
			return r, fmt.Errorf("%s: want verbatim, no final newline, or CRLF", quoted(word))
		}
	}
	if !r.verbatim {
		return r, fmt.Errorf("%s does not begin with verbatim", quoted(text))
	}
	return r, nil
}

// read returns the content in the text after the block. crlf means that the
// lines of the block end in CRLF: an editor converted the page, and read
// converts the line ends back unless the content had CRLF before.
func (r bodyRule) read(text string, crlf bool) string {
	if crlf && !r.crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if !r.verbatim {
		return looseBody(text)
	}
	// The rest of the block's last line, and the empty line.
	if blank := strings.TrimLeft(text, " \t"); blank == "" || blank[0] == '\n' || strings.HasPrefix(blank, "\r\n") {
		text = blank
	}
	text = trimLineEnd(trimLineEnd(text))
	if r.open {
		if s, ok := strings.CutSuffix(text, "\n"); ok {
			text = s
			if crlf {
				text = strings.TrimSuffix(text, "\r")
			}
		}
	}
	return text
}

func trimLineEnd(s string) string {
	if t, ok := strings.CutPrefix(s, "\r\n"); ok {
		return t
	}
	return strings.TrimPrefix(s, "\n")
}

// looseBody removes the blank lines before the text and the white space after
// it. Unlike the reference, it keeps the indentation of the first line, which
// may mark code.
func looseBody(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	lead := s[:len(s)-len(strings.TrimLeftFunc(s, unicode.IsSpace))]
	return s[strings.LastIndexByte(lead, '\n')+1:]
}

// parseCreated parses a date as the reference does. It returns false if the
// date is invalid or before 1970.
func parseCreated(datetime string) (crmem.UnixTime, bool) {
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(datetime))
	if err != nil || t.Unix() < 0 {
		return 0, false
	}
	return crmem.UnixTime(t.Unix()), true
}

// MaxPage is the maximum size in bytes of a page that the manifest does not list: a
// full content and a full list of aliases, escaped twice.
const MaxPage = crmem.MaxContent + 12*crmem.MaxAliases*(crmem.MaxName+32) + 1<<16
