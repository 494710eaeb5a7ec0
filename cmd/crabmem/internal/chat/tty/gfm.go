package tty

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newParser returns a parser of CommonMark with tables, strikethrough and task
// lists. It makes the same nodes as the extensions of goldmark. Their package
// compiles regular expressions with repetitions of 256 at program start, which
// took a fifth of the start-up of every command.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithInlineParsers(util.Prioritized(taskParser{}, 0), util.Prioritized(strikeParser{}, 500)),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithParagraphTransformers(util.Prioritized(tableTransformer{}, 200)),
	)
}

// space is the white space around check boxes and delimiter cells.
const space = "\t\n\f\r "

// taskParser parses the check box that begins a list item.
type taskParser struct{}

func (taskParser) Trigger() []byte { return []byte{'['} }

func (taskParser) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item, ok := parent.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	line, _ := block.PeekLine()
	if len(line) < 3 || line[0] != '[' || line[2] != ']' || strings.IndexByte(space+"xX", line[1]) < 0 {
		return nil
	}
	rest := bytes.TrimLeft(line[3:], space)
	block.Advance(len(line) - len(rest))
	return east.NewTaskCheckBox(line[1] == 'x' || line[1] == 'X')
}

// strikeParser parses ~text~ and ~~text~~.
type strikeParser struct{}

func (strikeParser) Trigger() []byte { return []byte{'~'} }

func (p strikeParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 1, p)
	if d == nil || d.OriginalLength > 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

func (strikeParser) IsDelimiter(b byte) bool { return b == '~' }

func (strikeParser) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (strikeParser) OnMatch(int) ast.Node { return east.NewStrikethrough() }

// tableTransformer replaces the lines of a paragraph that are a table.
type tableTransformer struct{}

func (tableTransformer) Transform(p *ast.Paragraph, r text.Reader, _ parser.Context) {
	lines := p.Lines()
	for i := 1; i < lines.Len(); i++ {
		line := lines.At(i)
		columns := delimiterColumns(line.Value(r.Source()))
		if columns == 0 {
			continue
		}
		header := tableRow(lines.At(i-1), columns, true, r.Source())
		if header.ChildCount() != columns {
			return
		}
		table := east.NewTable()
		table.AppendChild(table, east.NewTableHeader(header))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, tableRow(lines.At(j), columns, false, r.Source()))
		}
		lines.SetSliced(0, i-1)
		p.Parent().InsertAfter(p.Parent(), p, table)
		if lines.Len() == 0 {
			p.Parent().RemoveChild(p.Parent(), p)
			return
		}
		last := lines.At(i - 2)
		last.Stop-- // without the newline
		lines.Set(i-2, last)
	}
}

// delimiterColumns returns the number of columns of a delimiter row, or 0 if the
// line is not a delimiter row.
func delimiterColumns(line []byte) int {
	if indent, _ := util.IndentWidth(line, 0); indent > 3 || len(bytes.Trim(line, "-")) == 0 {
		return 0
	}
	columns := bytes.Split(line, []byte{'|'})
	if util.IsBlank(columns[0]) {
		columns = columns[1:]
	}
	if n := len(columns); n > 0 && util.IsBlank(columns[n-1]) {
		columns = columns[:n-1]
	}
	for _, c := range columns {
		c = bytes.TrimSuffix(bytes.TrimPrefix(bytes.Trim(c, space), []byte{':'}), []byte{':'})
		if len(c) == 0 || len(bytes.Trim(c, "-")) > 0 {
			return 0
		}
	}
	return len(columns)
}

// tableRow returns a row with the given number of columns. A header may have
// more.
func tableRow(line text.Segment, columns int, header bool, source []byte) *east.TableRow {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	b := line.Value(source)
	row := east.NewTableRow(nil)
	at, end := 0, len(b)
	if end > 0 && b[0] == '|' {
		at++
	}
	if end > 0 && b[end-1] == '|' {
		end--
	}
	for at < end && (header || row.ChildCount() < columns) {
		stop := at
		for stop < end && (b[stop] != '|' || stop > 0 && b[stop-1] == '\\') {
			stop++
		}
		cell := east.NewTableCell()
		segment := text.NewSegment(line.Start+at, line.Start+stop)
		segment = segment.TrimLeftSpace(source)
		cell.Lines().Append(segment.TrimRightSpace(source))
		row.AppendChild(row, cell)
		at = stop + 1
	}
	for row.ChildCount() < columns {
		row.AppendChild(row, east.NewTableCell())
	}
	return row
}
