// Package board reads and writes tasks. A task is the note "task: TITLE". Its text is Markdown
// that a person may edit; FORMAT.md describes it.
package board

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/crmem/metadata"
)

// Prefix begins the name of each task.
const Prefix = "task: "

// Statuses.
const (
	Pending    = "pending_approval"
	Backlog    = "backlog"
	Ready      = "ready"
	InProgress = "in_progress"
	Done       = "done"
)

// Statuses are the statuses, and Priorities are the priorities, in the order of a board.
var (
	Statuses   = []string{InProgress, Ready, Pending, Backlog, Done}
	Priorities = []string{"critical", "high", medium, "low"}
)

// Keys of the front matter, and the default priority.
const (
	status   = "status"
	priority = "priority"
	medium   = "medium"
)

// Limits of a task.
const (
	maxTitle    = 256 // bytes
	maxSubtask  = 1 << 10
	maxSubtasks = 100
	maxWord     = 32 // bytes of an unknown status or priority in a Task
)

// Errors of invalid values wrap ErrInvalid. Errors of status changes wrap ErrStep.
var (
	ErrInvalid = errors.New("invalid task")
	ErrStep    = errors.New("not a step")
)

// fault is an error with one of the errors above.
type fault struct {
	kind error
	text string
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.kind }

func invalid(format string, args ...any) error {
	return &fault{ErrInvalid, fmt.Sprintf(format, args...)}
}

// A Task is the text of a task. A person may have written another status or priority.
type Task struct {
	Status      string    `json:"status" jsonschema:"pending_approval, backlog, ready, in_progress, or done; or what a person wrote"`
	Priority    string    `json:"priority" jsonschema:"critical, high, medium, or low; or what a person wrote"`
	Subtasks    []Subtask `json:"subtasks"`
	Description string    `json:"description" jsonschema:"the specification, in Markdown"`
}

// A Subtask is a check box.
type Subtask struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

// Checked returns the number of subtasks that are done.
func (t *Task) Checked() (n int) {
	for _, s := range t.Subtasks {
		if s.Done {
			n++
		}
	}
	return n
}

// Title returns a task's title by its entry's name.
func Title(name string) (title string, ok bool) {
	title, ok = strings.CutPrefix(name, Prefix)
	return title, ok && title != ""
}

// Name returns the name for a title, or an ErrInvalid.
func Name(title string) (string, error) {
	title = strings.TrimSpace(title)
	if title == "" || len(title) > maxTitle || !utf8.ValidString(title) || strings.ContainsFunc(title, unicode.IsControl) || strings.ContainsAny(title, "\u2028\u2029") {
		return "", invalid("title: want one line of 1 to %d bytes", maxTitle)
	}
	return Prefix + title, nil
}

// Parse returns the task of a content. It accepts every text: without a status the task is in
// the backlog, and without a priority it is medium.
func Parse(content string) Task {
	m, at, _ := metadata.Parse(content)
	t := Task{Status: word(m.Text(status), Backlog), Priority: word(m.Text(priority), medium), Subtasks: []Subtask{}}
	list, end := boxes(content, at)
	for _, b := range list {
		t.Subtasks = append(t.Subtasks, b.Subtask)
	}
	t.Description = strings.TrimRightFunc(strings.TrimLeft(content[end:], "\r\n"), unicode.IsSpace)
	return t
}

// word returns a value of the front matter: In Progress is in_progress.
func word(value, missing string) string {
	if value == "" {
		return missing
	}
	return clip.Bytes(strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(value)), maxWord)
}

// A box is a subtask, and the offset of the character between its brackets.
type box struct {
	Subtask
	at int
}

// boxes returns the check boxes at the beginning of the text after an offset, and the offset
// after their lines. Without a check box that is the first offset.
func boxes(content string, at int) (list []box, end int) {
	end = at
	for len(list) < maxSubtasks {
		line, _, _ := strings.Cut(content[at:], "\n")
		b, ok := boxOf(strings.TrimSuffix(line, "\r"))
		if !ok && (len(list) > 0 || strings.TrimSpace(line) != "" || at == len(content)) {
			break
		}
		next := min(at+len(line)+1, len(content))
		if ok {
			b.at += at
			list, end = append(list, b), next
		}
		at = next
	}
	return list, end
}

// boxOf returns the check box of a line.
func boxOf(line string) (b box, ok bool) {
	if len(line) > maxSubtask+len("- [ ] ") || len(line) <= len("- [ ] ") || !strings.ContainsRune("-*+", rune(line[0])) ||
		line[1:3] != " [" || !strings.ContainsRune(" xX", rune(line[3])) || line[4:6] != "] " {
		return b, false
	}
	b = box{Subtask{strings.TrimSpace(line[6:]), line[3] != ' '}, 3}
	return b, b.Text != ""
}

// A Change is a new task, or new values of a task. Empty fields change nothing.
type Change struct {
	Status      string   `json:"status,omitempty" op:"words=pending_approval|backlog|ready|in_progress|done"`
	Priority    string   `json:"priority,omitempty" op:"words=critical|high|medium|low"`
	Description *string  `json:"description,omitempty" jsonschema:"the specification, in Markdown"`
	Subtasks    []string `json:"subtasks,omitzero" jsonschema:"a line each; they replace the subtasks, and one with the same text stays done" op:"items=100,filled"`
	Complete    int      `json:"complete,omitempty" jsonschema:"number of a subtask that is done, from 1" op:"max=100"`
}

// Validate returns an ErrInvalid for a value that no task can have.
func (c *Change) Validate() error {
	for _, v := range []struct {
		key, value string
		words      []string
	}{{status, c.Status, Statuses}, {priority, c.Priority, Priorities}} {
		if v.value != "" && !slices.Contains(v.words, v.value) {
			return invalid("%s %.40q: want %s", v.key, v.value, strings.Join(v.words, ", "))
		}
	}
	if len(c.Subtasks) > maxSubtasks {
		return invalid("%d subtasks, at most %d", len(c.Subtasks), maxSubtasks)
	}
	for i, s := range c.Subtasks {
		if b, ok := boxOf("- [ ] " + s); !ok || b.Text != s || strings.ContainsAny(s, "\r\n") {
			return invalid("subtask %d: want one line of 1 to %d bytes", i+1, maxSubtask)
		}
	}
	if c.Complete < 0 || c.Complete > maxSubtasks {
		return invalid("complete %d: want the number of a subtask", c.Complete)
	}
	return nil
}

// Step returns an ErrStep if no task goes from one status to another. Each may go to the
// backlog, and one with an unknown status to every status.
func Step(from, to string) error {
	next, known := map[string][]string{Pending: {Ready}, Backlog: {Ready}, Ready: {InProgress}, InProgress: {Done, Ready}, Done: nil}[from]
	if from == to || to == Backlog || !known || slices.Contains(next, to) {
		return nil
	}
	return &fault{ErrStep, fmt.Sprintf("%s to %s is not a step: the next is %s", from, to, strings.Join(append(next, Backlog), " or "))}
}

// New returns the content of a new task.
func (c *Change) New() (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	front, err := frontOf(word(c.Status, Backlog), word(c.Priority, medium))
	if err != nil {
		return "", err
	}
	return c.text(front)
}

// frontOf returns the front matter of a task without one.
func frontOf(of, at string) (string, error) {
	return metadata.Set("", metadata.Field{Key: metadata.Type, Values: []string{"task"}}, metadata.Field{Key: status, Values: []string{of}}, metadata.Field{Key: priority, Values: []string{at}})
}

// Apply returns the content of a task after the change. Bytes that the change does not concern
// stay the same.
func (c *Change) Apply(content string) (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	old := Parse(content)
	if c.Status != "" {
		if err := Step(old.Status, c.Status); err != nil {
			return "", err
		}
	}
	var fields []metadata.Field
	for _, f := range []struct{ key, old, value string }{{status, old.Status, c.Status}, {priority, old.Priority, c.Priority}} {
		if f.value != "" && f.value != f.old {
			fields = append(fields, metadata.Field{Key: f.key, Values: []string{f.value}})
		}
	}
	if len(fields) == 0 && c.Description == nil && c.Subtasks == nil && c.Complete == 0 {
		return content, nil
	}
	if _, _, readable := metadata.Parse(content); !readable {
		if p := metadata.Check(content); len(p) > 0 {
			return "", invalid("line %d of the task: crabmem cannot change this front matter: %s", p[0].Line, p[0].Message)
		}
		front, err := frontOf(old.Status, old.Priority)
		if err != nil {
			return "", invalid("%v", err)
		}
		content = front + content
	}
	content, err := c.text(content)
	if err == nil {
		content, err = metadata.Set(content, fields...)
	}
	if errors.Is(err, metadata.ErrInvalid) {
		err = invalid("%v", err)
	}
	return content, err
}

// text returns a content with the description and the subtasks of the change.
func (c *Change) text(content string) (string, error) {
	_, front, _ := metadata.Parse(content)
	list, end := boxes(content, front)
	if c.Subtasks != nil || c.Description != nil {
		content = c.replace(content, front, end, list)
	}
	if c.Complete == 0 {
		return content, nil
	}
	list, _ = boxes(content, front)
	if c.Complete > len(list) {
		return "", invalid("no subtask %d: the task has %d", c.Complete, len(list))
	}
	b := list[c.Complete-1]
	if b.Done {
		return content, nil
	}
	return content[:b.at] + "x" + content[b.at+1:], nil
}

// replace returns a content with other subtasks, or with another description. The boxes of the
// content are between its front matter and end.
func (c *Change) replace(content string, front, end int, list []box) string {
	head, rest, count := content[:end], content[end:], len(list)
	if c.Subtasks != nil {
		var b strings.Builder
		b.WriteString(content[:front])
		if front > 0 && content[front-1] != '\n' { // the last line of the text
			b.WriteString("\n")
		}
		for _, s := range c.Subtasks {
			mark := " "
			if slices.ContainsFunc(list, func(b box) bool { return b.Done && b.Text == s }) {
				mark = "x"
			}
			b.WriteString("- [" + mark + "] " + s + "\n")
		}
		head, count = b.String(), len(c.Subtasks)
	}
	if c.Description != nil {
		if rest = strings.TrimRightFunc(strings.TrimLeft(*c.Description, "\r\n"), unicode.IsSpace); rest != "" {
			rest += "\n"
		}
	}
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	if first, _, _ := strings.Cut(rest, "\n"); count > 0 && strings.TrimSpace(first) != "" {
		head += "\n"
	}
	return head + rest
}
