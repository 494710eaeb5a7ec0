package chat

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// listWork lists the work of the session that runs or waits for input.
func (ch *chat) listWork(ctx context.Context, _ string) error {
	list, err := op.ListWork.Do(ctx, ch.Client, op.WorkQuery{Session: ch.Stored})
	if err != nil {
		return ch.Explain(err)
	}
	var lines []string
	for i := range list {
		if v := &list[i]; v.Session == ch.Stored && v.State != "done" && v.State != "failed" {
			text := cmp.Or(display.OneLine(v.Question), display.Short(display.OneLine(v.Task), 60))
			lines = append(lines, display.Printable(fmt.Sprintf("%s %s, %s: %s", v.ID, v.Agent, v.State, text)))
		}
	}
	if len(lines) == 0 {
		lines = []string{"no work"}
	}
	ch.info(strings.Join(lines, "\n"))
	return nil
}

func (ch *chat) routeWork(ctx context.Context, arg string) error {
	id, text, _ := strings.Cut(arg, " ")
	r, err := op.RouteWork.Do(ctx, ch.Client, op.WorkMessage{WorkID: op.WorkID{Session: ch.Stored, Work: id}, Message: text})
	return ch.changed(r, err)
}

func (ch *chat) answerWork(ctx context.Context, arg string) error {
	id, text, _ := strings.Cut(arg, " ")
	r, err := op.AnswerWork.Do(ctx, ch.Client, op.WorkAnswer{WorkID: op.WorkID{Session: ch.Stored, Work: id}, Answer: text})
	return ch.changed(r, err)
}

func (ch *chat) cancelWork(ctx context.Context, arg string) error {
	r, err := op.CancelWork.Do(ctx, ch.Client, op.WorkID{Session: ch.Stored, Work: arg})
	return ch.changed(r, err)
}

func (ch *chat) changed(r op.WorkChange, err error) error {
	if err != nil {
		return ch.Explain(err)
	}
	ch.info(display.Printable(r.Result))
	return nil
}
