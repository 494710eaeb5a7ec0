package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// chatCommand is a command of the chat, such as /help.
type chatCommand struct {
	name, args, help string
	run              func(ch *chat, ctx context.Context, arg string) error
}

// chatCommands returns the commands in the order of /help. It is a function
// because /help, which calls it, is one of them.
func chatCommands() []chatCommand {
	return []chatCommand{
		{"clear", "", "create a session, as /new does; the previous session is unchanged", (*chat).clear},
		{"resume", "[ID]", "resume a session, or the previous one", (*chat).resumeCommand},
		{"sessions", "", "list the sessions", (*chat).listSessions},
		{"compact", "[FOCUS]", "replace the history with a summary", (*chat).compact},
		{"recall", "QUERY", "search the memory", (*chat).recall},
		{"remember", "NAME TEXT", "create or replace a note; quote a NAME of several words", (*chat).remember},
		{"work", "", "list the work of the session", (*chat).listWork},
		{"route", "ID MESSAGE", "send a message to work", (*chat).routeWork},
		{"answer", "ID TEXT", "answer the question of work, such as whether a command may run", (*chat).answerWork},
		{"cancel", "ID", "cancel work", (*chat).cancelWork},
		{"model", "[NAME]", "use another model; without NAME, list the models", (*chat).switchModel},
		{"agent", "[NAME [TEXT]]", "switch to another agent; with TEXT, send it a summary and TEXT", (*chat).switchAgent},
		{"help", "", "show this help", (*chat).help},
		{"exit", "", "leave", func(*chat, context.Context, string) error { return errLeave }},
	}
}

// command runs a line that begins with the name of a command. It returns false
// for other lines.
func (ch *chat) command(ctx context.Context, line string) (known bool, err error) {
	word, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	name, ok := strings.CutPrefix(word, "/")
	if !ok || strings.Contains(line, "\n") && name != "remember" {
		return false, nil
	}
	switch name { // names in other programs
	case "new":
		name = "clear"
	case "quit":
		name = "exit"
	case "?":
		name = "help"
	}
	for _, cmd := range chatCommands() {
		if cmd.name == name {
			return true, cmd.run(ch, ctx, strings.TrimSpace(arg))
		}
	}
	return false, nil
}

// suggestCommand returns a function that calls explain. If the daemon found neither
// the command nor a similar skill, the fix names the nearest command of the chat.
func suggestCommand(explain func(error) error) func(error) error {
	return func(err error) error {
		err = explain(err)
		f, ok := errors.AsType[*cli.Failure](err)
		if !ok || f.Kind != "not_found" || !strings.HasPrefix(f.Remedy, "did you mean /help") {
			return err
		}
		_, name, ok := strings.Cut(f.Message, "no such command or skill: /")
		if !ok {
			return err
		}
		var names []string
		for _, cmd := range chatCommands() {
			names = append(names, cmd.name)
		}
		f.Remedy = fmt.Sprintf("did you mean /%s? //%s sends the text", cmp.Or(op.NearestName(name, names), "help"), name)
		return f
	}
}

func (ch *chat) help(context.Context, string) error {
	var b strings.Builder
	for _, cmd := range chatCommands() {
		fmt.Fprintf(&b, "%-24s %s\n", "/"+strings.TrimSpace(cmd.name+" "+cmd.args), cmd.help)
	}
	b.WriteString("Any other /WORD loads the agent's skill WORD, or is an error.\n")
	b.WriteString("//WORD sends the text /WORD.")
	ch.info(b.String())
	return nil
}

func (ch *chat) clear(context.Context, string) error {
	ch.Stored, ch.Fresh = "", true
	ch.info("the next message creates a session")
	return nil
}

// shownSessions limits the list of /sessions.
const shownSessions = 20

func (ch *chat) listSessions(ctx context.Context, _ string) error {
	l, err := op.ListSessions.Do(ctx, ch.Client, op.SessionFilter{Limit: shownSessions})
	if err != nil {
		return ch.Explain(err)
	}
	if len(l.Items) == 0 {
		ch.info("no sessions yet")
		return nil
	}
	var b list
	for _, s := range l.Items {
		what := fmt.Sprintf("%s, %s", s.ModifiedAt.Local().Format(time.DateOnly), display.Plural(s.Messages, "message", "messages"))
		if s.Active {
			what += ", run active"
		}
		if s.Error != "" {
			what = display.Printable(display.OneLine(s.Error))
		}
		b.add(s.ID == ch.Stored, display.SessionLabel(s.ID, s.Title), what)
	}
	if n := l.Total - len(l.Items); n > 0 {
		b = append(b, fmt.Sprintf("and %d more: run crabmem sessions list", n))
	}
	return ch.show(b)
}

// list returns a line for each item. * marks the current item.
type list []string

func (l *list) add(current bool, name, text string) {
	mark := " "
	if current {
		mark = "*"
	}
	*l = append(*l, mark+" "+name+"  "+text)
}

func (ch *chat) show(l list) error {
	ch.info(strings.Join(l, "\n"))
	return nil
}

func (ch *chat) resumeCommand(ctx context.Context, id string) error {
	if id != "" {
		return ch.resume(ctx, id)
	}
	q := op.SessionFilter{CreatedBy: "user", Limit: shownSessions}
	if ch.Remote { // which shows the sessions of its key
		q.CreatedBy = ""
	}
	list, err := op.ListSessions.Do(ctx, ch.Client, q)
	if err != nil {
		return ch.Explain(err)
	}
	for _, s := range list.Items {
		if s.ID != ch.Stored && s.Error == "" && s.Source == "" {
			return ch.resume(ctx, s.ID)
		}
	}
	return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no other session", Remedy: "run /sessions to list the sessions"}
}

// liveSession returns the daemon's number of the session. The session has a
// number after its first message.
func (ch *chat) liveSession(ctx context.Context) (uint64, error) {
	if ch.Stored == "" {
		return 0, nothingSaid()
	}
	list, err := op.ListLoaded.Do(ctx, ch.Client, op.None{})
	if err != nil {
		return 0, ch.Explain(err)
	}
	for _, s := range list {
		if s.ID == ch.Stored {
			return s.Number, nil
		}
	}
	return 0, nothingSaid()
}

func nothingSaid() error {
	return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "session has no messages", Remedy: "send a message, or resume a session"}
}

func (ch *chat) compact(ctx context.Context, focus string) error {
	if ch.Stored == "" {
		return nothingSaid()
	}
	r, err := op.CompactSession.Do(ctx, ch.Client, op.Compaction{Session: ch.Stored, Focus: focus})
	if err != nil {
		return ch.Explain(err)
	}
	kept := ""
	if r.Archive != "" {
		kept = "; the summary is in the archive " + display.Label(r.Archive)
	}
	ch.info(fmt.Sprintf("compacted about %d tokens to %d%s", r.TokensBefore, r.TokensAfter, kept))
	return nil
}

func (ch *chat) switchModel(ctx context.Context, name string) error {
	l, err := op.ListModels.Do(ctx, ch.Client, op.None{})
	if err != nil {
		return ch.Explain(err)
	}
	if name == "" {
		var b list
		for _, m := range l.Models {
			b.add(m.Name == ch.Model || ch.Model == "" && m.Active, display.Label(m.Name), display.Printable(m.Kind))
		}
		return ch.show(b)
	}
	if !slices.ContainsFunc(l.Models, func(m op.Model) bool { return m.Name == name }) {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "unknown_model", Message: "no model " + display.Quoted(name), Remedy: "run /model to list the models"}
	}
	ch.Model = name
	ch.info("answering with " + display.Label(name))
	return nil
}

func (ch *chat) switchAgent(ctx context.Context, arg string) error {
	l, err := op.ListAgents.Do(ctx, ch.Client, op.AgentNames{Dir: ch.Dir})
	if err != nil {
		return ch.Explain(err)
	}
	name, text, _ := strings.Cut(arg, " ")
	text = strings.TrimSpace(text)
	if name == "" {
		var b list
		for _, a := range l {
			b.add(a.Name == ch.Agent, display.Label(a.Name), display.Printable(display.OneLine(a.Description)))
		}
		return ch.show(b)
	}
	if !slices.ContainsFunc(l, func(a op.Agent) bool { return a.Name == name }) {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "unknown_agent", Message: "no agent " + display.Quoted(name), Remedy: "run /agent to list the agents"}
	}
	if text == "" {
		ch.Agent, ch.Stored, ch.Fresh = name, "", false
		ch.info("talking to " + display.Label(name))
		return nil
	}
	return ch.handOff(ctx, name, text)
}

// handOff sends a summary of the conversation and a message to another agent in
// a new session (RFC 0078). The current session does not change.
func (ch *chat) handOff(ctx context.Context, name, text string) error {
	id, err := ch.liveSession(ctx)
	if err != nil {
		return err
	}
	summary, err := op.Summarize.Do(ctx, ch.Client, op.SessionNumber{Number: id})
	if err != nil {
		return ch.Explain(err)
	}
	from := ch.Stored
	ch.Agent, ch.Stored, ch.Fresh = name, "", true
	ch.info(fmt.Sprintf("now talking to %s; session %s is unchanged", display.Label(name), display.Label(from)))
	return ch.turn(ctx, "Summary of an earlier conversation with another agent:\n\n"+summary+"\n\n"+text)
}

// completeWait limits the wait for a completion.
const completeWait = 500 * time.Millisecond

// complete returns completions of commands and of their arguments: sessions,
// notes, models, and agents.
func (s *screen) complete(ctx context.Context, before string) (from int, words []string) {
	if s.dialog != nil || !strings.HasPrefix(before, "/") || strings.Contains(before, "\n") {
		return 0, nil
	}
	name, arg, isArg := strings.Cut(before, " ")
	if !isArg {
		for _, cmd := range chatCommands() {
			words = append(words, "/"+cmd.name)
		}
		return 0, slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, before) })
	}
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	switch name { // no completions after an error
	case "/resume":
		l, _ := op.ListSessions.Do(ctx, s.Client, op.SessionFilter{Limit: 1000})
		for _, i := range l.Items {
			words = append(words, i.ID)
		}
	case "/model":
		l, _ := op.ListModels.Do(ctx, s.Client, op.None{})
		for _, m := range l.Models {
			words = append(words, m.Name)
		}
	case "/remember":
		words = s.noteNames(ctx)
	case "/agent":
		l, _ := op.ListAgents.Do(ctx, s.Client, op.AgentNames{Dir: s.Dir})
		for _, a := range l {
			words = append(words, a.Name)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, arg) || display.Printable(w) != w })
	slices.Sort(words)
	return len(name) + 1, words
}
