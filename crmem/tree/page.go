package tree

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/limits"
)

// A page is one entry as a Markdown file: a block of HTML with what Markdown
// has no place for, an empty line, the content.
//
//	<div id="meta">
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
// Created and Aliases are written as the reference writes and reads them.
// The other rows are ours, and stand only where they say something:
//
//	ID                      the entry's id
//	Name                    the exact name, where the file's stem is not it
//	Created, unix seconds   the time, where the date cannot hold it (from year 10000 on)
//	Aliases, exact          the list, where a trimming reader of HTML would change it
//	Content                 how the text below is to be read, where the reference's way,
//	                        without the blank lines before and the white space after,
//	                        would change it: see bodyRule
//
// Name and exact aliases are JSON strings, so that every character has a form
// that survives HTML, an editor and the eye. With exact aliases the
// reference's list stands in a comment, raw as the reference needs it: the
// comment, unlike the block, may hold blank lines.
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

	isoLayout = "2006-01-02T15:04:05Z"
	maxISO    = 253402300799 // 9999-12-31T23:59:59Z
)

// escapeHTML is what the reference escapes, and all that it unescapes.
var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// isoTime is the date a reader of the page sees.
func isoTime(sec uint64) string {
	return time.Unix(int64(min(sec, maxISO)), 0).UTC().Format(isoLayout)
}

// appendPage renders the page of an entry that is stored under a stem.
func appendPage(b []byte, e *crmem.Entry, stem string) []byte {
	iso := isoTime(e.CreatedAt)
	b = append(b, metaOpen+"\n<dl>\n"...)
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
	if e.CreatedAt > maxISO {
		b = appendRow(b, rowSeconds, strconv.FormatUint(e.CreatedAt, 10))
	}
	if exact {
		b = appendList(b, rowExact, e.Aliases, jsonText)
	}
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

// plainAlias reports whether an alias comes back from a list item as it is.
func plainAlias(a string) bool {
	return a != "" && a == strings.TrimSpace(a) && !strings.ContainsAny(a, "\n\r\x00") && !strings.Contains(a, "{{")
}

// jsonText writes s as a JSON string in HTML. Two braces would be a directive
// to mdbook, which obeys it wherever it stands.
func jsonText(s string) string {
	b, err := format.MarshalJSON(s)
	if err != nil {
		panic("tree: internal error: a string has no JSON: " + err.Error())
	}
	return escapeHTML(strings.ReplaceAll(string(b), "{{", `{\u007b`))
}

// unquoteText reads a row's text: a JSON string, or plain text that somebody
// wrote by hand.
func unquoteText(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	var s string
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return "", fmt.Errorf("%s begins with a quotation mark and is no JSON string: %w", quoted(text), err)
	}
	return s, nil
}

// quoted shows the start of a text in an error.
func quoted(s string) string {
	if len(s) > 80 {
		return strconv.Quote(shorten(s, 80)) + "…"
	}
	return strconv.Quote(s)
}

// bodyRule is the Content row: how the text after the block is the content.
// Without the row it is the reference's way, which is what people expect of a
// text file: blank lines before it and white space after it do not count.
// With it every byte after the one empty line counts, so that an edited page
// keeps the edges that it shows.
type bodyRule struct {
	verbatim bool // the row is there
	open     bool // the last line end is the page's, not the content's
	crlf     bool // the content has line ends of its own that are CRLF
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
			return r, fmt.Errorf("%s is none of verbatim, no final newline, CRLF", quoted(word))
		}
	}
	if !r.verbatim {
		return r, fmt.Errorf("%s does not begin with verbatim", quoted(text))
	}
	return r, nil
}

// read takes the content from the text after the block. crlf says that the
// block's own lines end in CRLF: an editor has converted the page, and its
// line ends are taken back unless the content had such line ends before.
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

// looseBody drops the blank lines before the text and the white space after
// it. The reference drops the first line's indentation too, and with it what
// made a line code.
func looseBody(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	lead := s[:len(s)-len(strings.TrimLeftFunc(s, unicode.IsSpace))]
	return s[strings.LastIndexByte(lead, '\n')+1:]
}

// parseCreated reads a date as the reference does. False: it is none, or
// before 1970.
func parseCreated(datetime string) (uint64, bool) {
	t, err := time.Parse(time.RFC3339, strings.TrimSpace(datetime))
	if err != nil || t.Unix() < 0 {
		return 0, false
	}
	return uint64(t.Unix()), true
}

// pageFits is the largest page that is read without a manifest's word that
// dump wrote it: a full content and a full list of aliases, escaped twice.
const pageFits = limits.Content + 12*limits.Aliases*(limits.Name+32) + 1<<16
