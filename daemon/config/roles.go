package config

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Roles is [roles]: limits for the work that channels give out.
type Roles struct {
	Branches, Workers int // active ones of a session
	Waiting           int // workers of a session that wait for input
	Running           int // active work of the daemon
	Wakes             int // runs without a user since the user's last message
	WakeSteps         int // model calls of such a run
	WakeDelay         time.Duration
	WakeMaxDelay      time.Duration
	Stall             time.Duration // without progress between model calls
	Grace             time.Duration // after a request to stop
	BranchTimeout     time.Duration
	WorkerTimeout     time.Duration // 0 = none
	ChannelTimeout    time.Duration
	WaitingTimeout    time.Duration
	Keep              time.Duration                         // of the sessions of delivered work
	Steps             struct{ Channel, Branch, Worker int } // model calls of a run
	Models            RoleModels
	TaskModels        map[string]string // of workers, by the type of the task
	// ModelOrigins are the places of the models, by "channel" and the like, and by
	// "task NAME".
	ModelOrigins map[string]Origin
}

// Compaction has the shares of the window at which agents with a role compact.
type Compaction struct{ Background, Urgent, Emergency float64 }

// RoleModels is [roles.models]; "" = the default.
type RoleModels struct{ Channel, Branch, Worker, Compactor, Cortex string }

// Roles of agents. A channel talks with its user and gives work to others. A cortex
// also maintains the memory itself.
const (
	Channel = "channel"
	Cortex  = "cortex"
)

// maxFallbacks limits the models of a list in [fallbacks].
const maxFallbacks = 3

// Worker is the agent that every channel may give work to. It exists without
// configuration if an agent is a channel.
const Worker = "worker"

// addWorker adds the agent worker unless it is configured.
func addWorker(c *Config, all map[string]*agentSource) {
	for _, a := range all {
		if a.agent.Role != "" && all[Worker] == nil {
			w := newAgent(Worker, c)
			w.Memory, w.Description, w.Prompt = false, "does a task with files and commands", "You do one task with files and commands, and report its result."
			w.Tools = []string{"bash", "read", "write", "list", "edit"}
			all[Worker] = &agentSource{agent: w}
			return
		}
	}
}

// checkModelNames checks the models of roles, tasks, and fallbacks, and notes the places
// of the first two.
func checkModelNames(c *Config, top *section, models map[string]place) {
	known := append(modelNames(c), Offline)
	check := func(at place, name, what string) {
		if name != Offline && models[name].f == nil {
			at.unknown(name, known, "%s: no provider has the model '%s'", what, short(name))
		}
	}
	c.Roles.ModelOrigins = make(map[string]Origin)
	for table, prefix := range map[string]string{"roles.models": "", "roles.task_models": "task "} {
		s := top.table(table)
		for _, key := range s.src.sorted(s.path, s.t) {
			if name, _ := s.t[key].(string); name != "" {
				check(s.at(key), name, s.full(short(key)))
				c.Roles.ModelOrigins[prefix+key] = Origin{s.f.path, s.at(key).line}
			}
		}
	}
	s := top.child("fallbacks")
	for _, key := range s.src.sorted(s.path, s.t) {
		check(s.at(key), key, s.name)
		for name, at := range s.items(key) {
			check(at, name, s.full(short(key)))
		}
		if n := len(c.Fallbacks[key]); n > maxFallbacks {
			s.add(key, "%d models, more than the limit of %d", n, maxFallbacks)
		}
	}
}

// RoleModel is the model of an agent in a role.
type RoleModel struct {
	Role   string  `json:"role" jsonschema:"channel, branch, worker, compactor, or task TYPE: a worker with such a task"`
	Model  string  `json:"model"`
	Origin *Origin `json:"origin" jsonschema:"null: a default"`
}

// RoleModels returns the models of an agent in the roles that it may have.
func (c *Config) RoleModels(a *Agent) (list []RoleModel) {
	m := c.Roles.Models
	add := func(role, of, key, inherited string, from *Origin) {
		if at, ok := c.Roles.ModelOrigins[key]; ok {
			from = &at
		}
		list = append(list, RoleModel{role, cmp.Or(of, inherited), from})
	}
	var own *Origin
	if at, ok := a.Origins["model"]; ok {
		own = &at
	}
	if a.Role == Cortex {
		add(Cortex, m.Cortex, Cortex, a.Model, own)
	} else if a.Role != "" {
		add(Channel, m.Channel, Channel, a.Model, own)
		add("branch", m.Branch, "branch", list[len(list)-1].Model, list[len(list)-1].Origin)
	}
	add("worker", m.Worker, "worker", a.Model, own)
	worker := list[len(list)-1]
	for _, task := range slices.Sorted(maps.Keys(c.Roles.TaskModels)) {
		add("task "+task, c.Roles.TaskModels[task], "task "+task, worker.Model, worker.Origin)
	}
	if at, ok := a.Origins["compact_model"]; ok {
		list = append(list, RoleModel{"compactor", a.CompactModel, &at})
	} else {
		add("compactor", m.Compactor, "compactor", a.Model, own)
	}
	return list
}
