package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"crabmem/bm25/clip"
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
	session  uint64
	ctx      context.Context // of the run, for its events
	turn     chan struct{}   // capacity 1: held while a question is open
	approver *Approver       // of a run that does work; or nil
	call     string          // that the approver is asked about
}

// An Approver asks about commands, in place of the client, for a run that does work.
type Approver struct {
	Name string // the work's
	// Ask returns the label that a person selects. It counts for the call that begins now.
	Ask func(ctx context.Context, q agent.Question, call string) (label string, err error)
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
	return &person{session: session, ctx: ctx, turn: make(chan struct{}, 1)}
}

// The options of the question. The reply of a client is one of them, or a JSON object
// whose only value is one of them.
const (
	yesOnce      = "Yes, once"
	yesInSession = "Yes, in this session"
	yesAlways    = "Yes, always"
	refuse       = "No"
)

// Approve decides how a command of an agent runs. [tools.bash] approve sets the
// rule. A command that the allowlist permits runs without a question, as the line
// that Approve returns. A person must approve any other command, for one call, for
// the session, or always; bash runs it, and the line is nil. Without a person,
// Approve returns an error with the fix. env are the environment variables that the
// call sets; with any, a person can approve only this call.
func (m *Manager) Approve(ctx context.Context, c tool.Call, command string, env map[string]string) (approval.Line, error) {
	extra := len(env) > 0
	rules := m.o.Setup().Config.Bash
	if rules.Approve == "off" || ctx.Value(anyCommandKey{}) == true {
		return nil, nil
	}
	rules.Allow = permitted(rules.Allow, c.Agent)
	d := m.classify(command, c.Dir, rules.Allow)
	if extra {
		d = approval.Decision{Reason: "the call sets environment variables"}
	}
	if d.Line != nil {
		return d.Line, nil
	}
	p := personOf(ctx, c.Session)
	switch {
	case rules.Approve != "ask":
		return nil, refused(false, d, "the allowlist does not permit the command")
	case p == nil:
		return nil, refused(true, d, "no user is connected to approve the command")
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !extra {
		allowed := m.asks.allowed(p.session)
		if slices.Contains(allowed, exactly(c.Dir, command)) {
			return nil, nil
		}
		if now := m.classify(command, c.Dir, slices.Concat(rules.Allow, permitted(allowed, c.Agent))); now.Line != nil {
			return now.Line, nil
		}
	}
	name := c.Agent
	if p.approver != nil {
		name = p.approver.Name
		for i, prefix := range d.Missing {
			d.Missing[i] = c.Agent + ": " + prefix // no approval of a worker counts for other agents
		}
		p.call = fmt.Sprintf("%.16x", sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", c.Agent, c.Dir, command, env)))
	}
	q := question(name, command, env, d)
	asked := q.Question
	for n := 1; ; n++ {
		reply, err := m.ask(ctx, p, []agent.Question{q})
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, refused(true, d, err.Error())
		}
		answer := choice(reply)
		if label := Choose(answer, Labels(q.Options)); label != "" || n == maxAnswers {
			return nil, m.decide(p.session, exactly(c.Dir, command), d, label, answer)
		}
		q.Question = asked + "\nThe answer is not one of the choices: " + visible(clip.Bytes(answer, 100)) + ". Answer y, n, a number, or a label."
		if n == maxAnswers-1 {
			q.Question += " Another answer means no."
		}
	}
}

// maxAnswers limits the answers to one question: a program could repeat another answer
// again and again.
const maxAnswers = 3

// permitted returns the prefixes for all agents, and those after "AGENT: " for an agent.
func permitted(allow []string, agent string) (list []string) {
	for _, prefix := range allow {
		first, rest, _ := strings.Cut(prefix, " ")
		if name, ok := strings.CutSuffix(first, ":"); !ok {
			list = append(list, prefix)
		} else if name == agent {
			list = append(list, rest)
		}
	}
	return list
}

// Labels returns the labels of options.
func Labels(options []agent.Option) (labels []string) {
	for _, o := range options {
		labels = append(labels, o.Label)
	}
	return labels
}

// Choose returns the label of the option that an answer selects, or "": by its label or
// its number, or by y, yes, n, no, a, or always, in any case.
func Choose(answer string, labels []string) string {
	if n, err := strconv.Atoi(answer); err == nil && 1 <= n && n <= len(labels) {
		return labels[n-1]
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		answer = yesOnce
	case "n":
		answer = refuse
	case "a", "always":
		answer = yesAlways
	}
	if i := slices.IndexFunc(labels, func(label string) bool { return strings.EqualFold(label, answer) }); i >= 0 {
		return labels[i]
	}
	return ""
}

// classify applies an allowlist to a command.
func (m *Manager) classify(command, dir string, allow []string) approval.Decision {
	rules := m.o.Rules
	rules.Dir, rules.Allow = dir, allow
	return approval.Classify(command, rules)
}

func question(agentName, command string, env map[string]string, d approval.Decision) agent.Question {
	q := agent.Question{Header: agent.RunCommand, Question: fmt.Sprintf("%s wants to run: %s", agentName, visible(command)),
		Options: []agent.Option{{Label: yesOnce, Description: "run this command"}}}
	if len(env) > 0 {
		q.Question += "\nThe call sets environment variables:"
		for _, name := range slices.Sorted(maps.Keys(env)) {
			q.Question += " " + visible(name+"="+strconv.Quote(env[name]))
		}
	} else if d.Missing != nil {
		what := "commands that begin with " + strings.Join(d.Missing, ", or ")
		q.Options = append(q.Options, agent.Option{Label: yesInSession, Description: "run " + what + " in this session"},
			agent.Option{Label: yesAlways, Description: "run " + what + " in every session: adds to tools.bash.allow"})
	} else {
		q.Options = append(q.Options, agent.Option{Label: yesInSession, Description: "run exactly this command in this session"})
	}
	if d.Reason != "" && len(env) == 0 {
		q.Question += "\nIt needs approval: " + visible(d.Reason)
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

// decide applies the label of an option. It returns nil if the option permits the
// command, whose approval without a prefix is exact. Without a label, the error contains the answer.
func (m *Manager) decide(id uint64, exact string, d approval.Decision, label, answer string) error {
	switch label {
	case yesOnce:
		return nil
	case yesInSession:
		if d.Missing != nil {
			m.asks.approve(id, d.Missing...)
		} else {
			m.asks.approve(id, exact)
		}
		return nil
	case yesAlways:
		m.asks.approve(id, d.Missing...) // even if the configuration cannot be written
		if err := m.o.Allow(d.Missing); err != nil {
			m.o.Log.Warn("store an approval", "prefixes", d.Missing, "error", err)
		}
		return nil
	case refuse:
		return errors.New("the user did not approve the command")
	}
	return refused(true, d, "the command was not approved; reply: "+answer)
}

// refused returns the error for a refused command, with a fix for the user. ask
// reports whether a user can approve a command.
func refused(ask bool, d approval.Decision, why string) error {
	fix := "run crabmem config set tools.bash.approve off"
	if d.Missing != nil {
		fix = "add " + strings.Join(d.Missing, ", ") + " to tools.bash.allow in config.toml"
	}
	if ask {
		fix = "approve it in crabmem chat, or " + fix
	}
	return fmt.Errorf("%s; to permit it, the user can %s (reason: %s)", why, fix, d.Reason)
}

const maxApproved = 1000 // of one session

// exactly returns the approval of one text in one directory, which is no prefix.
func exactly(dir, command string) string { return "\x00" + dir + "\x00" + command }

func (a *asks) approve(session uint64, what ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := append(a.approved[session], what...); len(list) <= maxApproved {
		a.approved[session] = list
	}
}

// allowed returns the prefixes and commands that the user approved for a session.
func (a *asks) allowed(session uint64) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.approved[session])
}

// visible returns a text with each invisible character as an escape: control
// characters, those that change the direction of text, and those without a width. A
// line feed has a mark, and the next line is indented: no line of the text looks like
// one of the question, also where a client shows the lines as one.
func visible(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '\n':
			b.WriteString("↵\n  ")
		case unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
