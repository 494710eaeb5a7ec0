package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// page is a parsed page. Fields that the page lacks keep the values of the
// store.
type page struct {
	crmem.Entry  // the caller sets Kind; Name is from the Name row
	named, hasID bool
	hasTime      bool
	warnings     []string
	block        bool   // the page has a metadata block
	heading      string // empty without a heading
}

// pageError is an error in a page, with its offset. The remedy is an imperative
// for the person who edits the page.
type pageError struct {
	offset      int
	msg, remedy string
}

func (e *pageError) Error() string { return e.msg }

// parsePage parses a page of dump or of the reference strictly, and accepts any
// file that is plain text. It returns an error for text in the metadata block
// that an entry cannot contain. Front matter above the block becomes a part of the
// content's.
func parsePage(b []byte) (*page, error) {
	bom := len(b)
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	bom -= len(b)
	if !utf8.Valid(b) {
		return nil, &pageError{bom + format.InvalidUTF8(b), "the page is not UTF-8", "save it as UTF-8"}
	}
	s := string(b)
	p := &page{}
	front, body, above := metadata.Parse(s)
	if above {
		start := len(s) - len(strings.TrimLeftFunc(s[body:], unicode.IsSpace))
		if above = strings.HasPrefix(s[start:], metaOpen) && strings.Contains(s[start:], metaClose); above {
			s, bom = s[start:], bom+start
		}
	}
	end := strings.Index(s, metaClose)
	if !strings.HasPrefix(s, metaOpen) || end < 0 {
		if strings.HasPrefix(s, metaOpen) {
			p.warnings = append(p.warnings, "the metadata block has no </div>: load treats the complete page as content")
		}
		p.Content = strings.TrimRightFunc(s, unicode.IsSpace)
		return p, nil
	}
	rows, heading, err := parseRows(s[:end])
	p.heading = heading
	var rule bodyRule
	if err == nil {
		err = p.takeRows(rows, &rule)
	}
	if err != nil {
		err.offset += bom
		return nil, err
	}
	crlf := strings.HasPrefix(s[len(metaOpen):], "\r\n")
	p.block = true
	p.Content = rule.read(s[end+len(metaClose):], crlf)
	if above {
		content, err := mergeFront(p.Content, front)
		if err != nil {
			return nil, &pageError{0, "front matter above the metadata block: " + err.Error(), "move it below the block's </div>, or remove it"}
		}
		p.Content = content
	}
	return p, nil
}

// row is one term of the block's list.
type row struct {
	title    string
	text     string   // outside of items
	items    []string // trimmed
	datetime string
	dated    bool // a datetime exists, but may be empty
	offset   int
}

// With exact aliases, the reference's list is inside a comment. The reference
// ignores the comment marks, and so does this parser.
var openComments = strings.NewReplacer("<!--", "    ", "-->", "   ").Replace

// parseRows reads the metadata block, up to its </div>, and its heading.
func parseRows(block string) (rows []row, heading string, _ *pageError) {
	const remedy = "move it below the block's </div>, or remove it"
	block = openComments(block)
	z := html.NewTokenizer(strings.NewReader(block))
	in := "" // h1, dt, dd, or li: the element that text belongs to
	var item strings.Builder
	endItem := func() {
		if in == "li" {
			r := &rows[len(rows)-1]
			r.items = append(r.items, strings.TrimSpace(item.String()))
			item.Reset()
			in = "dd"
		}
	}
	for at := 0; ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break // the end; a tokenizer over a string returns no other error
		}
		start := at
		at += len(z.Raw())
		t := z.Token()
		switch kind {
		case html.TextToken:
			switch {
			case in == "h1":
				heading += t.Data
			case in == "li":
				item.WriteString(t.Data)
			case in == "dt":
				rows[len(rows)-1].title += t.Data
			case in == "dd":
				rows[len(rows)-1].text += t.Data
			case strings.TrimSpace(t.Data) != "":
				start += len(t.Data) - len(strings.TrimLeftFunc(t.Data, unicode.IsSpace))
				return nil, "", &pageError{start, "text outside the rows of the metadata block: " + quoted(strings.TrimSpace(t.Data)), remedy}
			}
		case html.StartTagToken:
			switch {
			case t.Data == "div" && start == 0, t.Data == "dl", t.Data == "ul":
			case t.Data == "h1" && len(rows) == 0 && heading == "":
				in = "h1"
			case t.Data == "dt":
				endItem()
				in = "dt"
				rows = append(rows, row{offset: start})
			case t.Data == "dd" && len(rows) > 0:
				endItem()
				in = "dd"
			case t.Data == "li" && (in == "dd" || in == "li"):
				endItem()
				in = "li"
			case t.Data == "time" && in == "dd":
				r := &rows[len(rows)-1]
				for _, a := range t.Attr {
					if a.Key == "datetime" && !r.dated {
						r.datetime, r.dated = a.Val, true
					}
				}
			default:
				return nil, "", &pageError{start, fmt.Sprintf("<%s> in the metadata block", t.Data), remedy}
			}
		case html.EndTagToken:
			switch t.Data {
			case "li":
				endItem()
			case "h1", "dt", "dd":
				endItem()
				in = ""
			case "dl", "ul", "time":
			default:
				return nil, "", &pageError{start, fmt.Sprintf("</%s> in the metadata block", t.Data), remedy}
			}
		default:
			return nil, "", &pageError{start, fmt.Sprintf("%s in the metadata block", quoted(t.String())), remedy}
		}
	}
	endItem()
	return rows, strings.TrimSpace(heading), nil
}

// takeRows interprets the rows.
func (p *page) takeRows(rows []row, rule *bodyRule) *pageError {
	find := func(title string) *row {
		for i := range rows {
			if rows[i].title == title {
				return &rows[i]
			}
		}
		return nil
	}
	for i := range rows {
		rows[i].title = strings.TrimSpace(rows[i].title)
	}
	for i := range rows {
		r := &rows[i]
		if find(r.title) != r {
			return &pageError{r.offset, fmt.Sprintf("duplicate row %q", r.title), "remove one"}
		}
		if err := p.takeRow(r, rule); err != nil {
			return err
		}
	}
	if r := find(rowSeconds); r != nil {
		sec, err := strconv.ParseUint(r.text, 10, 64)
		if err != nil {
			return &pageError{r.offset, fmt.Sprintf("%s: %s is not a number of seconds", rowSeconds, quoted(r.text)), "remove the row; the date in Created then applies"}
		}
		// A date edited since then counts.
		if p.hasTime && isoTime(p.CreatedAt) == isoTime(crmem.UnixTime(sec)) {
			p.CreatedAt = crmem.UnixTime(sec)
		}
	}
	if r := find(rowExact); r != nil {
		list := find(rowAliases)
		exact := make([]string, len(r.items))
		for i, s := range r.items {
			var err error
			if exact[i], err = unquoteText(s); err != nil {
				return &pageError{r.offset, fmt.Sprintf("%s: item %d: %v", rowExact, i+1, err), "correct it, or remove the row; the Aliases list then applies"}
			}
		}
		if list != nil && !slices.EqualFunc(exact, list.items, sameListed) {
			return &pageError{r.offset, fmt.Sprintf("%q and %q must contain the same aliases, but differ", rowExact, rowAliases), "remove the row that is out of date"}
		}
		p.Aliases = exact
	}
	return nil
}

// sameListed reports whether an alias is equal to an item, as a reader sees it
// that trims and drops CR and NUL.
func sameListed(exact, item string) bool { return listed(exact) == listed(item) }

var listed = func() func(string) string {
	plain := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\ufffd").Replace
	return func(s string) string { return strings.TrimSpace(plain(s)) }
}()

func (p *page) takeRow(r *row, rule *bodyRule) *pageError {
	if r.title == rowFields {
		return nil // the front matter counts
	}
	r.text = strings.TrimSpace(r.text)
	list := r.title == rowAliases || r.title == rowExact
	if list && r.text != "" {
		return &pageError{r.offset, fmt.Sprintf("row %q: %s is not in a list item", r.title, quoted(r.text)), "write every alias as <li>alias</li>"}
	}
	if !list && r.items != nil {
		return &pageError{r.offset, fmt.Sprintf("row %q contains a list", r.title), "write one value"}
	}
	switch r.title {
	case rowCreated:
		p.CreatedAt, p.hasTime = parseCreated(r.datetime)
		if !p.hasTime {
			p.warnings = append(p.warnings, fmt.Sprintf("Created: %s is not a date since 1970, such as %s: the page has no date", quoted(r.datetime), isoTime(0)))
		} else if r.text != strings.TrimSpace(r.datetime) {
			p.warnings = append(p.warnings, fmt.Sprintf("Created: load uses the attribute %s, not the text %s", quoted(r.datetime), quoted(r.text)))
		}
	case rowAliases:
		p.Aliases = r.items
	case rowExact, rowSeconds: // takeRows compares these rows with the rows that they make exact
	case rowID:
		id, err := strconv.ParseUint(r.text, 10, 64)
		if err != nil {
			return &pageError{r.offset, fmt.Sprintf("ID: %s is not an ID", quoted(r.text)), "remove the row; the entry then gets a new ID"}
		}
		p.ID, p.hasID = id, true
	case rowName:
		name, err := unquoteText(r.text)
		if err != nil {
			return &pageError{r.offset, "Name: " + err.Error(), "correct it, or remove the row; the file name without .md is then the name"}
		}
		p.Name, p.named = name, true
	case rowContent:
		var err error
		if *rule, err = parseBodyRule(r.text); err != nil {
			return &pageError{r.offset, "Content: " + err.Error(), "remove the row; blank lines before the text and white space after it are then ignored"}
		}
	default:
		return &pageError{r.offset, fmt.Sprintf("unknown row %q in the metadata block", r.title), "move it below the block's </div>, or remove it"}
	}
	return nil
}

// blocks is a Markdown parser reduced to the blocks that decide where HTML ends
// and text begins. It omits blocks whose parsing takes superlinear time.
var blocks = parser.NewParser(parser.WithBlockParsers(
	util.Prioritized(parser.NewHTMLBlockParser(), 100),
	util.Prioritized(parser.NewParagraphParser(), 200),
))

// checkBlock checks that Markdown readers see the metadata of a page as HTML, up to its
// last line, and the content after it.
func checkBlock(b []byte, id uint64) error {
	meta := b[:bytes.Index(b, []byte(metaClose))+len(metaClose)+1]
	root := blocks.Parse(text.NewReader(meta))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() != ast.KindHTMLBlock {
			return fmt.Errorf("a Markdown parser does not treat the metadata as HTML (ID %d)", id)
		}
	}
	return nil
}
