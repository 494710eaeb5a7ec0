package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/approval"
	"crabmem/daemon/tool"
)

// anyCommandKey is the context key of Run.AnyCommand, for a run and its tasks.
type anyCommandKey struct{}

// personKey is the context key of the *person that answers questions of tasks.
type personKey struct{}

// A person answers the questions of a run that a client started, and of the tasks
// that the run delegated. The tasks ask one after the other.
type person struct {
	session uint64
	ctx     context.Context // of the run, for its events
	turn    chan struct{}   // capacity 1: held while a question is open
}

// personOf returns the person that answers questions of a run, or nil if no client
// can answer.
func personOf(ctx context.Context, session uint64) *person {
	if p, ok := ctx.Value(personKey{}).(*person); ok {
		return p
	}
	if ctx.Value(interactiveKey{}) != true {
		return nil
	}
	return &person{session, ctx, make(chan struct{}, 1)}
}

// The options of the question. The reply of a client is one of them, or a JSON object
// whose only value is one of them.
const (
	yesOnce      = "Yes, once"
	yesInSession = "Yes, in this session"
	yesAlways    = "Yes, always"
	refuse       = "No"
)

// Approve returns nil if a command of an agent may run. [tools.bash] approve sets
// the rule: if a command is not on the allowlist, a person must approve it, for one
// call, for the session, or always. Without a person, Approve returns an error with
// the fix. extra is true if the call sets environment variables: then a person can
// approve only this call.
func (m *Manager) Approve(ctx context.Context, c tool.Call, command string, extra bool) error {
	rules := m.o.Setup().Config.Bash
	if rules.Approve == "off" || ctx.Value(anyCommandKey{}) == true {
		return nil
	}
	missing, known := approval.Missing(command, rules.Allow)
	known = known && !extra
	if known && len(missing) == 0 {
		return nil
	}
	p := personOf(ctx, c.Session)
	switch {
	case rules.Approve != "ask":
		return refused(false, missing, known, "the allowlist does not permit the command")
	case p == nil:
		return refused(true, missing, known, "no user is connected to approve the command")
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !extra && m.asks.permits(p.session, command, rules.Allow) {
		return nil
	}
	reply, err := m.ask(ctx, p, []agent.Question{question(c.Agent, command, extra, missing, known)})
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return refused(true, missing, known, err.Error())
	}
	return m.decide(p.session, command, extra, missing, known, choice(reply))
}

func question(agentName, command string, extra bool, missing []string, known bool) agent.Question {
	q := agent.Question{Header: "Run a command", Question: fmt.Sprintf("%s wants to run: %s", agentName, command),
		Options: []agent.Option{{Label: yesOnce, Description: "run this command"}}}
	if extra {
		q.Question += "\nThe call sets environment variables."
	} else if known {
		what := "commands that begin with " + strings.Join(missing, ", or ")
		q.Options = append(q.Options, agent.Option{Label: yesInSession, Description: "run " + what + " in this session"},
			agent.Option{Label: yesAlways, Description: "run " + what + " in every session: adds to tools.bash.allow"})
	} else {
		q.Options = append(q.Options, agent.Option{Label: yesInSession, Description: "run exactly this command in this session"})
	}
	q.Options = append(q.Options, agent.Option{Label: refuse, Description: "do not run it"})
	return q
}

// choice returns the answer in a reply: the only value of a JSON object, or else the
// text.
func choice(reply string) string {
	var answers map[string]string
	if json.Unmarshal([]byte(reply), &answers) == nil && len(answers) == 1 {
		for _, v := range answers {
			reply = v
		}
	}
	return strings.TrimSpace(reply)
}

// decide applies an answer. It returns nil if the answer permits the command. Any
// answer that is not an option refuses the command, and the error contains it.
func (m *Manager) decide(id uint64, command string, extra bool, missing []string, known bool, answer string) error {
	switch {
	case strings.EqualFold(answer, yesOnce):
		return nil
	case strings.EqualFold(answer, yesInSession) && !extra:
		if known {
			m.asks.approve(id, missing...)
		} else {
			m.asks.approve(id, exact+command)
		}
		return nil
	case strings.EqualFold(answer, yesAlways) && known:
		m.asks.approve(id, missing...) // also if the configuration cannot be written
		if err := m.o.Allow(missing); err != nil {
			m.o.Log.Warn("store an approval", "prefixes", missing, "error", err)
		}
		return nil
	case strings.EqualFold(answer, refuse) || answer == "":
		return errors.New("the user did not approve the command")
	}
	return refused(true, missing, known, "the command was not approved; reply: "+answer)
}

// refused returns the error for a refused command, with a fix for the user. ask
// reports whether a user can approve a command.
func refused(ask bool, missing []string, known bool, why string) error {
	fix := "run crabmem config set tools.bash.approve off"
	if known {
		fix = "add " + strings.Join(missing, ", ") + " to tools.bash.allow in config.toml"
	}
	if ask {
		fix = "approve it in crabmem chat, or " + fix
	}
	return fmt.Errorf("%s; to permit it, the user can %s", why, fix)
}

const (
	maxApproved = 1000   // of one session
	exact       = "\x00" // before a command that is no prefix
)

func (a *asks) approve(session uint64, what ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := append(a.approved[session], what...); len(list) <= maxApproved {
		a.approved[session] = list
	}
}

// permits reports whether allow and the approvals of the session permit a command.
func (a *asks) permits(session uint64, command string, allow []string) bool {
	a.mu.Lock()
	list := slices.Concat(allow, a.approved[session])
	a.mu.Unlock()
	if slices.Contains(list, exact+command) {
		return true
	}
	missing, known := approval.Missing(command, list)
	return known && len(missing) == 0
}
