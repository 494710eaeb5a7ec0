package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"

	"crabmem/crmem"
	"crabmem/daemon/board"
	"crabmem/daemon/errtable"
)

// Task is a task of the board.
type Task struct {
	Number uint64 `json:"number" jsonschema:"ID of its entry"`
	Title  string `json:"title"`
	board.Task
}

// TaskLine is a task in a list.
type TaskLine struct {
	Number   uint64 `json:"number" jsonschema:"ID of its entry"`
	Title    string `json:"title"`
	Status   string `json:"status" jsonschema:"pending_approval, backlog, ready, in_progress, or done; or what a person wrote"`
	Priority string `json:"priority" jsonschema:"critical, high, medium, or low; or what a person wrote"`
	Subtasks int    `json:"subtasks" jsonschema:"number of subtasks"`
	Checked  int    `json:"checked" jsonschema:"number of subtasks that are done"`
}

// String describes the task for models and people.
func (t *TaskLine) String() string {
	text := fmt.Sprintf("%d %s, %s: %s", t.Number, t.Status, t.Priority, t.Title)
	if t.Subtasks > 0 {
		text += fmt.Sprintf(" (%d of %d)", t.Checked, t.Subtasks)
	}
	return text
}

// Line returns the task for a list.
func (t *Task) Line() TaskLine {
	return TaskLine{t.Number, t.Title, t.Status, t.Priority, len(t.Subtasks), t.Checked()}
}

// TaskQuery selects tasks.
type TaskQuery struct {
	Status   string `json:"status,omitempty" jsonschema:"only tasks with this status" op:"words=pending_approval|backlog|ready|in_progress|done"`
	Priority string `json:"priority,omitempty" jsonschema:"only tasks with this priority" op:"words=critical|high|medium|low"`
	Limit    int    `json:"limit,omitempty" jsonschema:"at most this many" op:"default=50,min=1,max=500"`
}

// maxTasks limits a list of tasks, and defaultTasks is the limit without one.
const maxTasks, defaultTasks = 500, 50

// Validate returns an error for an invalid query.
func (in *TaskQuery) Validate() error {
	if in.Limit < 0 || in.Limit > maxTasks {
		return invalidTask(fmt.Sprintf("limit %d: want 1 to %d", in.Limit, maxTasks))
	}
	return taskError((&board.Change{Status: in.Status, Priority: in.Priority}).Validate())
}

// TaskList is a part of the board.
type TaskList struct {
	Total int        `json:"total" jsonschema:"tasks that match"`
	Tasks []TaskLine `json:"tasks" jsonschema:"in progress first, then by priority"`
}

// TaskNumber names a task.
type TaskNumber struct {
	Number uint64 `json:"number"`
}

// NewTask is a task to create.
type NewTask struct {
	Title       string   `json:"title" jsonschema:"one line, unlike that of each other task" op:"chars=256,filled"`
	Description string   `json:"description,omitempty" jsonschema:"the specification, in Markdown"`
	Priority    string   `json:"priority,omitempty" jsonschema:"default: medium" op:"words=critical|high|medium|low"`
	Subtasks    []string `json:"subtasks,omitempty" jsonschema:"a line each" op:"items=100,filled"`
	Status      string   `json:"status,omitempty" jsonschema:"default: backlog" op:"words=pending_approval|backlog|ready|in_progress|done"`
}

// TaskChange changes a task. Absent fields stay.
type TaskChange struct {
	TaskNumber
	Title string `json:"title,omitempty" jsonschema:"a new title" op:"chars=256"`
	board.Change
}

// Validate returns an error for an invalid change.
func (in *TaskChange) Validate() error { return taskError(in.Change.Validate()) }

// The rows need the permission to write, even to list tasks: identities have a board only in their own
// space, and untrusted identities have no board.

var ListTasks = Add(errtable.Store, Op[Store, TaskQuery, TaskList]{
	Name: "tasks.list", Does: "List the tasks of the board.", Effect: Reads, Need: NeedWrite, Path: "GET /v1/tasks",
	Tool:    &Tool{Name: "task_list", Title: "List tasks", Does: "List the tasks of the board, those in progress first. get_memory returns the text of the note task: TITLE."},
	Run:     func(_ context.Context, s Store, in *TaskQuery) (TaskList, error) { return in.list(s.Store), nil },
	NoStore: func() TaskList { return TaskList{Tasks: []TaskLine{}} },
})

var ShowTask = Add(errtable.Store, Op[Store, TaskNumber, Task]{
	Name: "tasks.show", Does: "Read a task.", Effect: Reads, Need: NeedWrite, Path: "GET /v1/tasks/{number}",
	Run: func(_ context.Context, s Store, in *TaskNumber) (Task, error) {
		_, t, err := findTask(s.Store, in.Number)
		return t, err
	},
})

var CreateTask = Add(errtable.Store, Op[Store, NewTask, Task]{
	Name: "tasks.create", Does: "Create a task.", Effect: Writes, Need: NeedWrite, Path: "POST /v1/tasks", Status: http.StatusCreated,
	Fails: []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage},
	Tool:  &Tool{Name: "task_create", Title: "Create a task", Does: "Put a task on the board: the note task: TITLE. A task waits in the backlog until its status is ready."},
	Run: func(ctx context.Context, s Store, in *NewTask) (Task, error) {
		name, err := board.Name(in.Title)
		if err != nil {
			return Task{}, taskError(err)
		}
		content, err := (&board.Change{Status: in.Status, Priority: in.Priority, Subtasks: in.Subtasks, Description: &in.Description}).New()
		if err != nil {
			return Task{}, taskError(err)
		}
		list, err := s.Update(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
			if e, err := st.Get(name); err == nil && crmem.SameName(e.Name, name) {
				return nil, &errtable.Error{HTTP: http.StatusConflict, Kind: "exists", Exit: errtable.ExitConflict, Err: crmem.ErrExists,
					Message: fmt.Sprintf("task %d has this title", e.ID), Fix: "change that task, or choose another title"}
			}
			return []crmem.Op{crmem.Add{Name: name, Content: content}}, nil
		})
		if err != nil {
			return Task{}, err
		}
		return taskOf(&list[0]), nil
	},
})

var UpdateTask = Add(errtable.Store, Op[Store, TaskChange, Task]{
	Name: "tasks.update", Does: "Change a task.", Effect: Writes, Need: NeedWrite, Path: "PATCH /v1/tasks/{number}",
	Fails: []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage},
	Tool: &Tool{Name: "task_update", Title: "Change a task",
		Does: "Change a task. The status goes from pending_approval or backlog to ready, then to in_progress, then to done or back to ready; each may go to backlog."},
	Run: func(ctx context.Context, s Store, in *TaskChange) (out Task, err error) {
		list, err := s.Update(ctx, func(st *crmem.Store) (ops []crmem.Op, err error) {
			ops, out, err = in.plan(st)
			return ops, err
		})
		if len(list) > 0 {
			out = taskOf(&list[len(list)-1])
		}
		return out, err
	},
})

// taskOf returns the task of an entry.
func taskOf(e *crmem.Entry) Task {
	title, _ := board.Title(e.Name)
	return Task{e.ID, title, board.Parse(e.Content)}
}

// findTask returns a task and its entry.
func findTask(s *crmem.Store, number uint64) (crmem.Entry, Task, error) {
	e, err := (Store{Store: s}).entry(number)
	if _, ok := board.Title(e.Name); err != nil || !ok || e.Kind != crmem.Note {
		return e, Task{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Exit: errtable.ExitNotFound, Err: crmem.ErrNotFound,
			Message: fmt.Sprintf("no task %d", number), Fix: "run crabmem tasks list to see the numbers"}
	}
	return e, taskOf(&e), nil
}

// list returns the tasks of a store that the query selects.
func (in *TaskQuery) list(s *crmem.Store) TaskList {
	out := TaskList{Tasks: []TaskLine{}}
	for e := range s.All() {
		if _, ok := board.Title(e.Name); !ok || e.Kind != crmem.Note {
			continue
		}
		t := taskOf(&e)
		if (in.Status == "" || in.Status == t.Status) && (in.Priority == "" || in.Priority == t.Priority) {
			out.Tasks = append(out.Tasks, t.Line())
		}
	}
	place := func(words []string, word string) int { // an unknown word is first: a person is to see it
		return slices.Index(words, word)
	}
	sort.Slice(out.Tasks, func(i, j int) bool {
		a, b := &out.Tasks[i], &out.Tasks[j]
		return cmp.Or(cmp.Compare(place(board.Statuses, a.Status), place(board.Statuses, b.Status)),
			cmp.Compare(place(board.Priorities, a.Priority), place(board.Priorities, b.Priority)), cmp.Compare(a.Number, b.Number)) < 0
	})
	out.Total = len(out.Tasks)
	out.Tasks = out.Tasks[:min(out.Total, cmp.Or(in.Limit, defaultTasks))]
	return out
}

// plan returns the operations that change the task, and the task before.
func (in *TaskChange) plan(s *crmem.Store) ([]crmem.Op, Task, error) {
	e, t, err := findTask(s, in.Number)
	if err != nil {
		return nil, t, err
	}
	content, err := in.Apply(e.Content)
	if err != nil {
		return nil, t, taskError(err)
	}
	name := e.Name
	if in.Title != "" {
		if name, err = board.Name(in.Title); err != nil {
			return nil, t, taskError(err)
		}
	}
	var ops []crmem.Op
	if content != e.Content {
		ops = append(ops, crmem.Update{Name: e.Name, Content: content, Aliases: e.Aliases})
	}
	if name != e.Name {
		ops = append(ops, crmem.Rename{Name: e.Name, To: name}) // the old name stays as an alias
	}
	return ops, t, nil
}

func invalidTask(message string) error {
	return &errtable.Error{HTTP: http.StatusBadRequest, Kind: "invalid", Exit: errtable.ExitUsage, Message: message, Err: crmem.ErrInvalid}
}

// taskError returns the error of a request for a task.
func taskError(err error) error {
	switch {
	case errors.Is(err, board.ErrInvalid):
		return invalidTask(err.Error())
	case errors.Is(err, board.ErrStep):
		return &errtable.Error{HTTP: http.StatusConflict, Kind: "conflict", Exit: errtable.ExitConflict, Message: err.Error(), Fix: "run crabmem tasks show to see the status", Err: err}
	}
	return err
}
