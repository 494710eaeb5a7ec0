package mcpclient

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// HookEvents are the events of crabmem hook.
var HookEvents = []string{"session-start", "pre-compact", "stop", "session-end"}

// hooks is how a client runs commands at events.
type hooks struct {
	file        func(Machine) string
	transcripts []func(Machine) string // directories, in which the client writes sessions
	events      []string               // the client's names of HookEvents
	timeouts    []json.Number          // of the events, in the client's unit
	after       string                 // what makes the client run them
}

// hooksOf returns a client's hooks, or nil. testdata/hooks.md lists the pages that
// define them. The files of all clients have one form.
func hooksOf(id string) *hooks {
	in := func(variable, dir string, path ...string) func(Machine) string {
		return func(m Machine) string {
			return filepath.Join(append([]string{m.variable(variable, filepath.Join(m.Home, dir))}, path...)...)
		}
	}
	switch id {
	case "claude-code":
		return &hooks{in("CLAUDE_CONFIG_DIR", ".claude", "settings.json"), []func(Machine) string{in("CLAUDE_CONFIG_DIR", ".claude", "projects")},
			[]string{"SessionStart", "PreCompact", "Stop", "SessionEnd"}, []json.Number{"15", "15", "15", "15"}, "start a new session"}
	case "codex": // it limits SessionEnd to 3 seconds
		return &hooks{in("CODEX_HOME", ".codex", "hooks.json"), []func(Machine) string{in("CODEX_HOME", ".codex", "sessions"), in("CODEX_HOME", ".codex", "archived_sessions")},
			[]string{"SessionStart", "PreCompact", "Stop", "SessionEnd"}, []json.Number{"15", "15", "15", "3"}, "start a new session, and trust the hooks in /hooks"}
	case "gemini-cli": // its unit is the millisecond
		return &hooks{in("", ".gemini", "settings.json"), []func(Machine) string{in("", ".gemini", "tmp")},
			[]string{"SessionStart", "PreCompress", "AfterAgent", "SessionEnd"}, []json.Number{"15000", "15000", "15000", "15000"}, "start a new session"}
	}
	return nil
}

// TranscriptDirs returns the directories in which clients write transcripts.
func TranscriptDirs(m Machine) (dirs []string) {
	for _, c := range HookClients() {
		for _, dir := range c.hooks.transcripts {
			dirs = append(dirs, dir(m))
		}
	}
	return dirs
}

// HookClients returns the clients with hooks. Their files are those with the hooks.
func HookClients() (list []Client) {
	for _, c := range Clients() {
		if c.hooks = hooksOf(c.ID); c.hooks != nil {
			if c.marker == nil {
				c.marker = func(m Machine) string { return filepath.Dir(c.hooks.file(m)) }
			}
			c.file, c.After = c.hooks.file, c.hooks.after
			list = append(list, c)
		}
	}
	return list
}

// SetHooks returns the file with a hook for each event. command returns the command of an
// event. Commands of another path replace theirs. If the file has the hooks, SetHooks
// returns text.
func (c Client) SetHooks(text []byte, command func(event string) string) ([]byte, error) {
	mark, text := cutMark(text)
	f, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	all := []field{}
	for i, event := range HookEvents {
		hook := []field{{name: "type", value: "command"}, {name: "command", value: command(event)}, {name: "timeout", value: c.hooks.timeouts[i]}}
		all = append(all, field{name: c.hooks.events[i], value: []any{[]field{{name: "hooks", value: []any{hook}}}}})
	}
	if f.value.Value == nil {
		after, err := jsonc{}.set(text, nil, "hooks", all)
		return slices.Concat(mark, after), err
	}
	object, depth, err := f.object("hooks")
	if err == nil && depth == 0 {
		err = f.put(object, "hooks", all)
	} else if err == nil {
		for i, event := range HookEvents {
			if err = f.setHook(object, all[i], command(event)); err != nil {
				break
			}
		}
	}
	return c.edited(mark, text, f, err)
}

// setHook sets the commands of an event, or adds one.
func (f *jsonFile) setHook(events *hujson.Value, event field, command string) error {
	i, err := f.find(events.Value.(*hujson.Object), event.name)
	if err != nil {
		return err
	}
	if i < 0 {
		return f.put(events, event.name, event.value)
	}
	list := &events.Value.(*hujson.Object).Members[i].Value
	groups, ok := list.Value.(*hujson.Array)
	if !ok {
		return ErrByHand
	}
	if old := commandsIn(groups); len(old) > 0 {
		for _, text := range old {
			text.Value = hujson.String(command)
		}
		return nil
	}
	o := members(groups)
	f.add(list, o, nil, event.value.([]any)[0])
	*groups = elements(o)
	return nil
}

// RemoveHooks returns the file without the hooks that run crabmem. If no hook does, it
// returns text.
func (c Client) RemoveHooks(text []byte) ([]byte, error) {
	mark, text := cutMark(text)
	f, err := parseJSON(text)
	if err != nil || f.value.Value == nil {
		return slices.Concat(mark, text), err
	}
	events, depth, err := f.object("hooks")
	if err != nil || depth == 0 {
		return slices.Concat(mark, text), err
	}
	o, removed := events.Value.(*hujson.Object), false
	for i := len(o.Members) - 1; i >= 0; i-- {
		groups, ok := o.Members[i].Value.Value.(*hujson.Array)
		if !ok || len(commandsIn(groups)) == 0 {
			continue
		}
		removed = true
		if f.prune(groups, func(group *hujson.Value) bool {
			hooks := hooksIn(group)
			return hooks != nil && len(hooks.Elements) > 0 && f.prune(hooks, func(hook *hujson.Value) bool { return commandIn(hook) != nil })
		}) {
			f.drop(o, i)
		}
	}
	if root := f.value.Value.(*hujson.Object); removed && len(o.Members) == 0 {
		i, _ := f.find(root, "hooks") // f.object found it
		f.drop(root, i)
	}
	return c.edited(mark, text, f, nil)
}

// prune removes some elements, and reports whether the list is then empty.
func (f *jsonFile) prune(list *hujson.Array, remove func(*hujson.Value) bool) bool {
	o := members(list)
	for i := len(o.Members) - 1; i >= 0; i-- {
		if remove(&o.Members[i].Value) {
			f.drop(o, i)
		}
	}
	*list = elements(o)
	return len(o.Members) == 0
}

// members returns a list's elements as members without names, which drop and add edit.
func members(list *hujson.Array) *hujson.Object {
	o := &hujson.Object{AfterExtra: list.AfterExtra}
	for _, e := range list.Elements {
		o.Members = append(o.Members, hujson.ObjectMember{Name: hujson.Value{BeforeExtra: e.BeforeExtra}, Value: hujson.Value{Value: e.Value, AfterExtra: e.AfterExtra}})
	}
	return o
}

// elements is the inverse of members.
func elements(o *hujson.Object) hujson.Array {
	list := hujson.Array{AfterExtra: o.AfterExtra}
	for _, m := range o.Members {
		list.Elements = append(list.Elements, hujson.Value{BeforeExtra: m.Name.BeforeExtra, Value: m.Value.Value, AfterExtra: m.Value.AfterExtra})
	}
	return list
}

// member returns the last member of an object with a name, or nil.
func member(v *hujson.Value, name string) (found *hujson.Value) {
	o, ok := v.Value.(*hujson.Object)
	for i := 0; ok && i < len(o.Members); i++ {
		if o.Members[i].Name.Value.(hujson.Literal).String() == name {
			found = &o.Members[i].Value
		}
	}
	return found
}

// hooksIn returns a group's hooks, or nil.
func hooksIn(group *hujson.Value) *hujson.Array {
	if v := member(group, "hooks"); v != nil {
		list, _ := v.Value.(*hujson.Array)
		return list
	}
	return nil
}

// commandIn returns a hook's command if it runs crabmem, or nil.
func commandIn(hook *hujson.Value) *hujson.Value {
	v := member(hook, "command")
	if v == nil || v.Value.Kind() != '"' {
		return nil
	}
	if _, ok := hookProgram(v.Value.(hujson.Literal).String()); !ok {
		return nil
	}
	return v
}

// commandsIn returns the commands of an event that run crabmem.
func commandsIn(groups *hujson.Array) (list []*hujson.Value) {
	for i := range groups.Elements {
		hooks := hooksIn(&groups.Elements[i])
		for k := 0; hooks != nil && k < len(hooks.Elements); k++ {
			if text := commandIn(&hooks.Elements[k]); text != nil {
				list = append(list, text)
			}
		}
	}
	return list
}

// edited returns the text of an edited file, and an error if the edit changed more than
// the hooks that run crabmem.
func (c Client) edited(mark, before []byte, f *jsonFile, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	after := f.pack()
	old, err := jsonc{}.decode(before)
	if err != nil {
		return nil, err
	}
	now, err := jsonc{}.decode(after)
	stripHooks(old)
	stripHooks(now)
	if err != nil || !reflect.DeepEqual(old, now) {
		return nil, ErrByHand
	}
	return slices.Concat(mark, after), nil
}

// HookPrograms returns the programs in a file's hooks that run crabmem.
func HookPrograms(text []byte) ([]string, error) {
	_, text = cutMark(text)
	file, err := jsonc{}.decode(text)
	return stripHooks(file), err
}

// stripHooks removes the hooks that run crabmem from a decoded file, and the lists and
// objects around them that are then empty. It returns their programs.
func stripHooks(file map[string]any) (programs []string) {
	events, _ := file["hooks"].(map[string]any)
	for name, v := range events {
		groups, _ := v.([]any)
		groups = slices.DeleteFunc(groups, func(v any) bool {
			group, _ := v.(map[string]any)
			hooks, _ := group["hooks"].([]any)
			left := slices.DeleteFunc(slices.Clone(hooks), func(v any) bool {
				hook, _ := v.(map[string]any)
				command, _ := hook["command"].(string)
				program, ok := hookProgram(command)
				if ok {
					programs = append(programs, program)
				}
				return ok
			})
			if len(left) < len(hooks) {
				group["hooks"] = left
			}
			return len(hooks) > 0 && len(left) == 0
		})
		if events[name] = groups; len(groups) == 0 {
			delete(events, name)
		} else if groups == nil {
			events[name] = v
		}
	}
	if len(events) == 0 {
		delete(file, "hooks")
	}
	return programs
}

// hookProgram returns the program in a command that runs crabmem hook.
func hookProgram(command string) (program string, ok bool) {
	program, rest, ok := strings.Cut(command, " hook ")
	event, _, _ := strings.Cut(rest, " ")
	program = strings.Trim(program, `"'`)
	base := program[strings.LastIndexAny(program, `/\`)+1:]
	return program, ok && slices.Contains(HookEvents, event) && strings.HasPrefix(base, "crabmem")
}
