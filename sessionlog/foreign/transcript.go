// Package foreign reads the session logs of other programs: Claude Code, Codex,
// and Gemini CLI. [Find] lists the logs in a directory, [File.Read] converts one to the
// form that [sessionlog.Importer] imports.
//
// [JSONType] and [LoneSurrogate] examine JSON text for other readers of foreign
// files, too.
package foreign

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Limits of a transcript, which is completely in memory, and of a line of a
// session.
const (
	maxTranscript   = 1 << 30
	maxLine         = 64 << 20
	maxImportedLine = 64 << 20

	maxBadLines   = 100 // listed; all are counted
	maxTallyLines = 16  // per reason
	maxReasons    = 64
	maxTitle      = 200 // characters

	tooLong = "longer than a line of a session"
)

var (
	// ErrNoTranscript is returned for a file that no such program wrote.
	ErrNoTranscript = errors.New("not a session of Claude Code, Codex, or Gemini CLI")
	// ErrNoMessages is returned for a transcript without readable messages.
	ErrNoMessages = errors.New("no messages")
	// ErrSubAgent is returned for the transcript of a sub-agent. It belongs to
	// another session and may have its id.
	ErrSubAgent = errors.New("transcript of a sub-agent")
	// ErrNoSessionID is returned for a transcript without a session ID:
	// importing it twice would create two sessions.
	ErrNoSessionID = errors.New("no session ID")
)

// Transcript is a conversation of another program, in the form that
// sessionlog.Dir.Import takes. It depends only on the bytes of the file, but for the
// project: see [sessionlog.ProjectOf].
type Transcript struct {
	Meta  sessionlog.Meta
	Items []sessionlog.Item
	Began []int64 // the number of the line where each of Items begins
	Lines int64   // of the file; the last line may be incomplete

	Skipped []Tally // omitted lines and parts, by reason
	Mended  Tally   // lines in which a lone surrogate became U+FFFD

	dir string // the first working directory

	Mark Mark // after the last line; its Offset is 0 if it is not a place to continue

	BadLines int64                 // lines in an unknown form, which are omitted
	Bad      []*record.FormatError // the first of them, without a path
}

// Tally counts lines, or parts of lines, and names the first.
type Tally struct {
	Reason string  `json:"reason"`
	Count  int64   `json:"count"`
	Lines  []int64 `json:"lines"` // the first of them
}

func (t *Tally) add(line int64) {
	t.Count++
	if n := len(t.Lines); n < maxTallyLines && (n == 0 || t.Lines[n-1] != line) {
		t.Lines = append(t.Lines, line)
	}
}

// lineReader reads lines in bounded memory.
type lineReader struct {
	r      *bufio.Reader
	line   []byte // without its end; valid until the next read
	long   bool   // the line is over the limit and is not in line
	number int64  // of line, from 1
	offset int64  // of line
	next   int64  // offset of the next line
	ended  bool   // the line has its end
	limit  int64  // of the file
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxTranscript, ended: true}
}

// read reads the next line. It returns io.EOF after the last one.
func (l *lineReader) read() error {
	l.line, l.long, l.offset = l.line[:0], false, l.next
	for {
		b, err := l.r.ReadSlice('\n')
		if l.next += int64(len(b)); l.next > l.limit {
			return fmt.Errorf("more than %s", sizeText(l.limit))
		}
		if l.long = l.long || len(l.line)+len(b) > maxLine+1; l.long {
			l.line = nil
		} else {
			l.add(b)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && l.next == l.offset:
			return io.EOF
		case err != nil && err != io.EOF:
			return err
		}
		l.ended = err == nil
		l.number++
		if l.number == 1 {
			l.line = bytes.TrimPrefix(l.line, []byte("\ufeff"))
		}
		l.line = bytes.Trim(l.line, " \t\r\n")
		return nil
	}
}

// add appends to the line. The capacity doubles up to the length of the longest
// line; the growth of append would discard five buffers.
func (l *lineReader) add(b []byte) {
	if room := max(2*cap(l.line), 64<<10); len(l.line)+len(b) > cap(l.line) {
		if room >= maxLine {
			room = maxLine + 1
		}
		l.line = append(make([]byte, 0, room), l.line...)
	}
	l.line = append(l.line, b...)
}

// builder collects a transcript.
type builder struct {
	t    Transcript
	line int64 // that is being read
	buf  []byte
	dir  string // the first working directory

	created, last time.Time // the first and the greatest time of a line

	from    Mark // before the first line
	earlier bool // the lines change how those before the mark are read
}

// read calls line with every object of a file. An error of line makes the line
// bad.
func (b *builder) read(r io.Reader, line func(object) error) error {
	lines := newLineReader(r)
	for {
		err := lines.read()
		if err == io.EOF {
			if lines.ended {
				b.t.Mark.Offset = b.from.Offset + lines.next
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d (offset %d): %w", lines.number+1, lines.offset, err)
		}
		b.line, b.t.Lines = lines.number, lines.number
		if len(lines.line) == 0 && !lines.long {
			continue
		}
		var o object
		if lines.long {
			err = fmt.Errorf("longer than %s", sizeText(maxLine))
		} else if o, err = parseObject(lines.line); err == nil {
			err = line(o)
		}
		if err != nil {
			b.t.BadLines++
			if len(b.t.Bad) < maxBadLines {
				b.t.Bad = append(b.t.Bad, &record.FormatError{Line: lines.number, Offset: lines.offset, Msg: err.Error()})
			}
			continue
		}
		if bytes.Contains(lines.line, []byte(`\u`)) && LoneSurrogate(string(lines.line)) >= 0 {
			b.t.Mended.add(lines.number)
		}
	}
}

// skip counts something that is left out.
func (b *builder) skip(reason string) {
	i := slices.IndexFunc(b.t.Skipped, func(t Tally) bool { return t.Reason == reason })
	if i < 0 && len(b.t.Skipped) >= maxReasons {
		reason = "others"
		i = slices.IndexFunc(b.t.Skipped, func(t Tally) bool { return t.Reason == reason })
	}
	if i < 0 {
		i = len(b.t.Skipped)
		b.t.Skipped = append(b.t.Skipped, Tally{Reason: reason})
	}
	b.t.Skipped[i].add(b.line)
}

// skipNamed counts an omitted item by its name in the file.
func (b *builder) skipNamed(what, name string) {
	b.skip(fmt.Sprintf("%s %q", what, clip.Chars(name, 40)))
}

// plain is the text of blocks.
func (b *builder) plain(o object, key string) (string, error) {
	blocks, err := o.blocks(key)
	if err != nil {
		return "", err
	}
	return b.plainBlocks(blocks)
}

// plainBlocks is the text of blocks of text and images. It counts the others.
func (b *builder) plainBlocks(blocks []object) (text string, err error) {
	for _, block := range blocks {
		switch typ := block.text("type"); typ {
		case "text", "input_text", "output_text", "summary_text", "reasoning_text":
			s, err := block.str("text")
			if err != nil {
				return "", err
			}
			text = join(text, s)
		case "image", "input_image":
			text = join(text, "[image]")
		default:
			b.skipNamed("block", typ)
		}
	}
	return text, nil
}

// at notes a line's time. The first one is the session's creation.
func (b *builder) at(timestamp string) {
	t, err := time.Parse(time.RFC3339Nano, timestamp)
	if err != nil {
		return
	}
	if b.created.IsZero() {
		b.created = t
	}
	if t.After(b.last) {
		b.last = t
	}
	b.earlier = b.earlier || !t.After(b.from.Last)
}

// message adds a message that began in a line, and returns the length of its
// text; 0 if it was not added.
func (b *builder) message(line int64, m sessionlog.Message) int {
	if m.Content == "" && m.ReasoningContent == "" && len(m.ToolCalls) == 0 && m.Role != record.RoleTool {
		b.skip("empty")
		return 0
	}
	b.buf = m.AppendLine(b.buf[:0])
	n := len(b.buf)
	if n > maxImportedLine {
		b.skip(tooLong)
		return 0
	}
	b.t.Items, b.t.Began = append(b.t.Items, sessionlog.Item{Message: m}), append(b.t.Began, line)
	return n
}

// summary adds a compaction.
func (b *builder) summary(s string) {
	if strings.TrimSpace(s) == "" {
		b.skip("compaction without a summary")
		return
	}
	if b.buf = line.AppendMarker(b.buf[:0], s); len(b.buf) > maxImportedLine {
		b.skip(tooLong)
		return
	}
	b.t.Items, b.t.Began = append(b.t.Items, sessionlog.Item{Marker: true, Summary: s}), append(b.t.Began, b.line)
}

// finish returns the transcript of a session. A session without a time gets the
// time 1970.
func (b *builder) finish(tool, id, title string) (Transcript, error) {
	slices.SortFunc(b.t.Skipped, func(x, y Tally) int { return strings.Compare(x.Reason, y.Reason) })
	if from := &b.from; from.Offset > 0 {
		id = cmp.Or(id, from.ID)
		marker := slices.ContainsFunc(b.t.Items, func(i sessionlog.Item) bool { return i.Marker })
		if b.earlier || marker || id != from.ID || title != "" && digest(title) != from.Title {
			return b.t, ErrEarlier
		}
	}
	m := &b.t.Mark
	m.Tool, m.ID, m.Title, m.Last = tool, id, cmp.Or(digest(title), b.from.Title), b.last
	if m.Last.Before(b.from.Last) {
		m.Last = b.from.Last
	}
	if len(b.t.Items) == 0 {
		m.Answer = b.from.Answer
	}
	if !slices.ContainsFunc(b.t.Items, func(i sessionlog.Item) bool { return !i.Marker }) {
		return b.t, ErrNoMessages
	}
	if id == "" || len(id) > 200 || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return b.t, ErrNoSessionID
	}
	if b.created.IsZero() {
		b.created = time.Unix(0, 0)
	}
	b.t.Meta = sessionlog.Meta{
		Agent: tool, CreatedBy: "user", CreatedAt: record.Timestamp(b.created),
		Title: clip.Chars(strings.Join(strings.Fields(title), " "), maxTitle), Source: tool + ":" + id, Project: sessionlog.ProjectOf(nil, b.dir),
	}
	b.t.dir = b.dir
	b.t.Meta.SetEnd(b.last)
	return b.t, nil
}

// inTags reports whether a text is one element that a program inserts into a
// conversation, without text that a user typed.
func inTags(s string, tags []string) bool {
	s = strings.TrimSpace(s)
	return slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(s, "<"+tag+">") && strings.HasSuffix(s, "</"+tag+">")
	})
}

// join joins two texts by an empty line, where there are two.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// sizeText formats a number of bytes in the largest unit that gives at least
// one.
func sizeText(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
