package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/cron"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
)

// maxMade limits the entries that one identity makes with the tool cron.
const maxMade = 20

type cronArgs struct {
	Action   string `json:"action" jsonschema:"create, list, or delete"`
	Schedule string `json:"schedule,omitempty" jsonschema:"of create: minute hour day month weekday, as 0 9 * * 1-5; or @every 90m"`
	Prompt   string `json:"prompt,omitempty" jsonschema:"of create: the message that you receive then; or skill"`
	Skill    string `json:"skill,omitempty"`
	Args     string `json:"args,omitempty" jsonschema:"of the skill"`
	Timezone string `json:"timezone,omitempty" jsonschema:"as Europe/Berlin; default: the machine's"`
	Once     bool   `json:"once,omitempty" jsonschema:"only the next time"`
	ID       uint64 `json:"id,omitempty" jsonschema:"of delete"`
}

// cronTool returns the tool cron of channels. It carries out the rows of crons for the
// calling session. An entry that it makes never exceeds the run that makes it.
func (d *Daemon) cronTool() tool.Tool {
	t := tool.New(role.Cron, "Schedule messages to yourself in this conversation, which receives your answers.", func(ctx context.Context, c tool.Call, args cronArgs) (string, error) {
		t := agent.TurnOf(ctx)
		if t == nil || t.Session.Log == nil {
			return "", errors.New("cron is only available in a session")
		}
		on, session, sender := op.Local{On: op.Daemon{Parts: d.parts}}, t.Session.Log.ID(), trust.CronOf(t.Sender)
		rules := d.setup().config.Origins
		admin := rules.Level(t.Session.CreatedBy) == trust.Admin && rules.Level(t.Sender) == trust.Admin
		made, list := 0, []cron.Cron{}
		for _, c := range d.crons.List() {
			if c.Scope != "" && c.Sender == sender {
				made++
			}
			if c.SessionFile == session && (admin || c.Sender == sender) {
				list = append(list, c)
			}
		}
		switch args.Action {
		case "create":
			if made >= maxMade {
				return "", fmt.Errorf("%d entries already: delete some first", made)
			}
			e, err := op.AddCron.Do(ctx, on, op.NewCron{Session: session, Schedule: args.Schedule, Prompt: args.Prompt, Skill: args.Skill, Args: args.Args,
				Timezone: args.Timezone, Once: args.Once, Deliver: d.ownConversation(t, sender), Maker: &op.CronMaker{Agent: c.Agent, Sender: sender, Scope: c.Scope,
					Origin: t.Session.Scope.Intersect(t.Bound())}})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("added %d, next at %s", e.ID, e.NextAt), nil
		case "list", "delete":
			var lines []string
			for _, c := range list {
				if args.Action == "delete" && c.ID == args.ID {
					_, err := op.RemoveCron.Do(ctx, on, op.CronID{ID: c.ID})
					return fmt.Sprintf("removed %d", c.ID), err
				}
				lines = append(lines, fmt.Sprintf("%d: %q %s", c.ID, c.Schedule, display.OneLine(c.Message())))
			}
			if args.Action == "delete" {
				return "", fmt.Errorf("no entry of this conversation: %d", args.ID)
			}
			return strings.Join(append(lines, display.Plural(len(lines), "entry", "entries")), "\n"), nil
		}
		return "", fmt.Errorf("no such action: %s", display.Short(display.OneLine(args.Action), 20))
	})
	t.Role = true
	return t
}
