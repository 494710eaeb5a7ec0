package board

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/metadata"
)

func ref(s string) *string { return &s }

func must(t *testing.T, content string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const sample = "---\ntype: task\nstatus: ready\npriority: high\n---\n- [x] parse\n- [ ] test\n\nThe specification.\n\n- [ ] not a subtask\n"

// TestFormat writes, reads, and changes a task. Bytes that a change does not concern stay.
func TestFormat(t *testing.T) {
	c := &Change{Status: Ready, Priority: "high", Subtasks: []string{"parse", "test"}, Description: ref("\nThe specification.\n\n- [ ] not a subtask\n\n")}
	text, err := c.New()
	text = must(t, text, err)
	text, err = (&Change{Complete: 1}).Apply(text)
	if text = must(t, text, err); text != sample {
		t.Fatalf("%q", text)
	}
	got := Parse(sample)
	if got.Status != Ready || got.Priority != "high" || len(got.Subtasks) != 2 || !got.Subtasks[0].Done || got.Subtasks[1] != (Subtask{"test", false}) || got.Checked() != 1 ||
		got.Description != "The specification.\n\n- [ ] not a subtask" {
		t.Errorf("%+v", got)
	}
	for _, x := range []struct {
		change Change
		want   string
	}{
		{Change{}, sample},
		{Change{Status: Ready, Priority: "high"}, sample},
		{Change{Complete: 1}, sample},
		{Change{Status: InProgress}, strings.Replace(sample, "status: ready", "status: in_progress", 1)},
		{Change{Priority: "low"}, strings.Replace(sample, "priority: high", "priority: low", 1)},
		{Change{Complete: 2}, strings.Replace(sample, "- [ ] test", "- [x] test", 1)},
		{Change{Subtasks: []string{"more", "parse"}}, strings.Replace(sample, "- [x] parse\n- [ ] test", "- [ ] more\n- [x] parse", 1)},
		{Change{Subtasks: []string{}}, strings.Replace(sample, "- [x] parse\n- [ ] test\n", "", 1)},
		{Change{Description: ref("")}, sample[:strings.Index(sample, "\nThe spec")]},
		{Change{Description: ref("- [ ] a box")}, sample[:strings.Index(sample, "The spec")] + "- [ ] a box\n"},
	} {
		if text, err := x.change.Apply(sample); err != nil || text != x.want {
			t.Errorf("%+v: %q, %v, want %q", x.change, text, err, x.want)
		}
	}
}

// TestPersons reads and changes tasks as people write them.
func TestPersons(t *testing.T) {
	for content, want := range map[string]string{
		"":                              "backlog medium []",
		"a text":                        "backlog medium [] a text",
		"---\nstatus: In Progress\n---": "in_progress medium []",
		"---\r\nstatus: doing\r\npriority: soon\r\n---\r\n\r\n* [X] one\r\n+ [ ] two\r\ntext\r\n":                 "doing soon [one! two] text",
		"---\nstatus: [a, b]\n---\n- [ ]\n- [y] a\n":                                                              "backlog medium [] - [ ]\n- [y] a",
		"---\nstatus: " + strings.Repeat("é", 40) + "\n---\n- [ ] " + strings.Repeat("x", maxSubtask+1) + "\nend": strings.Repeat("é", 16) + " medium [] - [ ] " + strings.Repeat("x", maxSubtask+1) + "\nend",
		"---\nbroken\n---\n- [ ] a": "backlog medium [] ---\nbroken\n---\n- [ ] a",
	} {
		x := Parse(content)
		got := x.Status + " " + x.Priority + " ["
		for i, s := range x.Subtasks {
			got += strings.Repeat(" ", min(i, 1)) + s.Text + strings.Repeat("!", map[bool]int{true: 1}[s.Done])
		}
		if got = strings.TrimSpace(got + "] " + x.Description); got != want {
			t.Errorf("%.80q: %q, want %q", content, got, want)
		}
	}
	if list := Parse(strings.Repeat("- [ ] a\n", 1<<20)).Subtasks; len(list) != maxSubtasks { // 8 MiB
		t.Errorf("%d subtasks", len(list))
	}
	for content, want := range map[string]string{
		"a text": "---\ntype: task\nstatus: done\npriority: medium\n---\na text",
		"---\r\nstatus: doing\r\n# why\r\n---\r\ntext": "---\r\nstatus: done\r\n# why\r\n---\r\ntext",
		"---\npriority: {}\n---\n":                     "line 2 of the task: crabmem cannot change this front matter: " + metadata.Check("---\npriority: {}\n---\n")[0].Message,
	} {
		c := Change{Status: Done}
		if !strings.Contains(content, "status") {
			c.Status = Ready
			want = strings.Replace(want, "done", Ready, 1)
		}
		got, err := c.Apply(content)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
	if text, err := (&Change{Subtasks: []string{"a"}}).Apply("---\nstatus: ready\n---"); err != nil || text != "---\nstatus: ready\n---\n- [ ] a\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestStep compares each change of the status with the table of the design.
func TestStep(t *testing.T) {
	table := map[string]string{Pending: "ready backlog", Backlog: "ready", Ready: "in_progress backlog", InProgress: "done ready backlog", Done: "backlog"}
	for _, from := range Statuses {
		for _, to := range Statuses {
			err := Step(from, to)
			if ok := from == to || slices.Contains(strings.Fields(table[from]), to); ok != (err == nil) || err != nil && !errors.Is(err, ErrStep) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
		if err := Step("doing", from); err != nil {
			t.Error(err)
		}
	}
	if err := Step(Ready, Done); err == nil || err.Error() != "ready to done is not a step: the next is in_progress or backlog" {
		t.Error(err)
	}
	if _, err := (&Change{Status: Done}).Apply(sample); !errors.Is(err, ErrStep) {
		t.Error(err)
	}
}

// TestValues refuses values that no task can have.
func TestValues(t *testing.T) {
	for want, c := range map[string]Change{
		`status "doing": want in_progress, ready, pending_approval, backlog, done`: {Status: "doing"},
		`priority "p1": want critical, high, medium, low`:                          {Priority: "p1"},
		"subtask 2: want one line of 1 to 1024 bytes":                              {Subtasks: []string{"a", "b\nc"}},
		"subtask 1: want one line of 1 to 1024 bytes":                              {Subtasks: []string{strings.Repeat("a", 1025)}},
		"101 subtasks, at most 100":                                                {Subtasks: slices.Repeat([]string{"a"}, 101)},
		"complete -1: want the number of a subtask":                                {Complete: -1},
		"no subtask 3: the task has 2":                                             {Complete: 3},
	} {
		if _, err := c.Apply(sample); !errors.Is(err, ErrInvalid) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, title := range []string{"", " ", "a\nb", "a\r", "a\u2028b", "a\x00", "\xff", strings.Repeat("a", 257)} {
		if name, err := Name(title); (title != "a\r") == !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v", title, name, err)
		}
	}
	if name, err := Name(" deploy "); name != "task: deploy" || err != nil {
		t.Error(name, err)
	}
	if title, ok := Title("task: deploy"); title != "deploy" || !ok {
		t.Error(title)
	}
	for _, name := range []string{"task: ", "task:deploy", "deploy"} {
		if _, ok := Title(name); ok {
			t.Errorf("%q is a task", name)
		}
	}
}

// TestRoundTrip changes random texts. What a change writes is what Parse reads, and what
// it does not concern stays.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := []string{"- [ ] a", "* [x] b", "", " ", "text", "---", "---\nstatus: ready\n---", "status: doing", "- [ ] ", "# - [ ] c\r"}
	random := func() string {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteString("---\nstatus: ready\n---\n")
		}
		for range r.IntN(6) {
			b.WriteString(lines[r.IntN(len(lines))] + strings.Repeat("\n", 1-r.IntN(6)/5))
		}
		return b.String()
	}
	changed := 0
	for range 20_000 {
		content := random()
		c := Change{Status: []string{"", InProgress, Backlog}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			c.Subtasks = slices.Repeat([]string{"a", "n"}, r.IntN(3))
		}
		if r.IntN(2) == 0 {
			c.Description = ref(random())
		}
		before := Parse(content)
		text, err := c.Apply(content)
		if err != nil {
			continue
		}
		changed++
		after := Parse(text)
		if c.Status != "" && after.Status != c.Status || c.Status == "" && after.Status != before.Status {
			t.Fatalf("%q, %+v: status %s of %q", content, c, after.Status, text)
		}
		boxes := c.Subtasks
		if c.Subtasks == nil {
			boxes = nil
			for _, s := range before.Subtasks {
				boxes = append(boxes, s.Text)
			}
		}
		if len(boxes) == 0 { // the description may begin with check boxes
			continue
		}
		for i, s := range after.Subtasks {
			if i >= len(boxes) || s.Text != boxes[i] {
				t.Fatalf("%q, %+v: %+v", content, c, after.Subtasks)
			}
		}
		want := before.Description
		if c.Description != nil {
			want = strings.TrimSpace(*c.Description)
		}
		if len(after.Subtasks) != len(boxes) || strings.TrimSpace(after.Description) != strings.TrimSpace(want) {
			t.Fatalf("%q, %+v: %q has %+v, want %q", content, c, text, after, want)
		}
	}
	if changed < 5_000 {
		t.Errorf("only %d changes", changed)
	}
}
