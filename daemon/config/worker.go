package config

import (
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

// Protocols of workers.
const (
	ACP  = "acp"  // the Agent Client Protocol, version 1
	Exec = "exec" // the task on standard input, the result on standard output
)

// ExternalWorker is [workers.NAME]: a program that does the work of an agent.
type ExternalWorker struct {
	Name        string
	Description string
	Protocol    string // ACP or Exec
	Command     string
	Args        []Secret          // a variable in one may be a secret
	Env         map[string]Secret // with that of [env]
	Dir         string            // absolute, or "": the caller selects one
	Permissions string            // deny or allow
	Timeout     time.Duration     // of a task; 0 = none
	IdleTimeout time.Duration     // without output; 0 = none
}

func (w *ExternalWorker) rows() []row {
	return []row{
		{"description", &w.Description, "", nil, 0, "for the agents that may give it tasks"},
		{"protocol", &w.Protocol, Exec, words{ACP, Exec}, 0,
			"acp: the Agent Client Protocol; exec: the task on standard input, the result on standard output, progress on standard error, and success as exit code 0"},
		{"command", &w.Command, "", nil, 0, "program"},
		{"args", &w.Args, eg{[]string{"--acp"}}, nil, 0, "arguments of command; clients can see them"},
		{"env", &w.Env, tree{}, nil, 0, "variable of command"},
		{"dir", &w.Dir, eg{"work/shop"}, nil, 0, "where it works if a task names no directory; absolute, or relative to config.toml"},
		{"permissions", &w.Permissions, "deny", words{"deny", "allow"}, 0, "answer to its questions for permission; with acp"},
		{"timeout", &w.Timeout, 0, during(0), 0, "of a task; 0 = none"},
		{"idle_timeout", &w.IdleTimeout, 30 * minute, during(0), 0, "without output; 0 = none"},
	}
}

// Variables returns the variables of the program, as NAME=VALUE.
func (w *ExternalWorker) Variables() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(w.Env)) {
		list = append(list, name+"="+string(w.Env[name]))
	}
	return list
}

// workers reads [workers.*], and returns the place of each. It comes after [env].
func (l *loader) workers(c *Config, top *section) map[string]place {
	places := make(map[string]place)
	for name, s := range top.tables("workers") {
		w, broken := ExternalWorker{Name: name}, len(l.broken)
		setDefaults(w.rows())
		s.read(w.rows())
		why := badAgent(name)
		if name == Worker {
			why = "is reserved for the built-in agent: select another name"
		}
		if why != "" {
			s.at("").add("worker name '%s' %s", short(name), why)
		}
		if s.empty("command") {
			s.at("command").add("worker '%s' has no command: set command to a program", short(name))
		}
		if w.Dir != "" && !filepath.IsAbs(w.Dir) {
			w.Dir = filepath.Join(l.home, w.Dir)
		}
		own := w.Env
		w.Env = make(map[string]Secret)
		maps.Copy(w.Env, c.Env)
		maps.Copy(w.Env, own)
		if places[name] = s.at(""); len(l.broken) == broken {
			c.Workers = append(c.Workers, w)
		}
	}
	if len(places) > maxAgents {
		top.at("workers").add("%d workers exceed the limit of %d", len(places), maxAgents)
	}
	sort.Slice(c.Workers, func(i, j int) bool { return c.Workers[i].Name < c.Workers[j].Name })
	return places
}
