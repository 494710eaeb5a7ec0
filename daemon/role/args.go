package role

import (
	"fmt"
	"strings"
)

type branchArgs struct {
	Question string `json:"question" jsonschema:"what to think about"`
}

type workerArgs struct {
	Task        string   `json:"task" jsonschema:"a self-contained task, unless context is fork"`
	Agent       string   `json:"agent,omitempty" jsonschema:"who does it; default: worker"`
	Interactive bool     `json:"interactive,omitempty" jsonschema:"after its result it waits for messages (route)"`
	Context     string   `json:"context,omitempty" jsonschema:"fork: it sees this conversation; none, the usual default: only the task"`
	Dir         string   `json:"dir,omitempty" jsonschema:"working directory; default: that of this conversation"`
	TaskType    string   `json:"task_type,omitempty" jsonschema:"kind of the task: the configuration selects a model by it"`
	Skills      []string `json:"skills,omitempty" jsonschema:"your skills whose texts the worker needs"`
}

type routeArgs struct {
	ID      string `json:"id" jsonschema:"of the work, as w7"`
	Message string `json:"message" jsonschema:"what to tell it"`
}

type cancelArgs struct {
	ID     string `json:"id" jsonschema:"of the work, as w7"`
	Reason string `json:"reason,omitempty" jsonschema:"why, for the log"`
}

type replyArgs struct {
	Content string `json:"content" jsonschema:"what to tell the user now"`
}

type skipArgs struct {
	Reason string `json:"reason,omitempty" jsonschema:"why, for the log"`
}

type statusArgs struct {
	Status string `json:"status" jsonschema:"a few words"`
}

type outcomeArgs struct {
	Text string `json:"text" jsonschema:"the result"`
	OK   *bool  `json:"ok,omitempty" jsonschema:"false: the task could not be done"`
}

func (o *outcomeArgs) fine() bool { return o.OK == nil || *o.OK }

// Limits of arguments, in bytes.
const (
	maxQuestion = 8 << 10
	maxReply    = 64 << 10
	maxStatus   = 256
)

// sized returns an error for a text that is empty or too long.
func sized(what, text string, most int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is empty", what)
	case len(text) > most:
		return fmt.Errorf("%s has %d bytes, want at most %d", what, len(text), most)
	}
	return nil
}
