package config

import (
	"strings"
	"sync"
	"time"

	"crabmem/crmem/fusion"
	"crabmem/daemon/approval"
	"crabmem/daemon/model"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/trust"
)

// A row is the definition of a key. Reading, config get and set, the template, masking,
// completion, and the manual use it. To add a key, add its row and the field that the row
// points at.
type row struct {
	path  string // of the key, from the table that the rows describe
	to    any    // pointer to the field, a func that reads the value, or nil: the value is ignored
	def   any    // default; an eg has none
	limit any    // span, words, func(string) error, or nil
	marks mark
	text  string // sentence for the template and the manual
}

// eg is an example for the template, of a key without a default.
type eg struct{ v any }

// span limits a number, or a duration in nanoseconds.
type span struct{ low, high int64 }

// during is the span of a time-out from low on.
func during(low time.Duration) span { return span{int64(low), int64(maxTimeout)} }

// words are the values of a key.
type words []string

// keyFile is a secret in a file that the key names.
type keyFile *Secret

// textFile is a text in a file that the key names.
type textFile *string

type mark int

const (
	reference  mark = 1 << iota // a key of the reference's DaemonConfig: a client that omits it resets it
	variables                   // ${NAME} is replaced by the variable NAME
	address                     // clients see it without user and query
	texts                       // a list of texts that need not be names
	unused                      // a key without effect, with a warning
	obsolete                    // a key that the template and the manual omit
	restart                     // a change takes effect after a restart of the daemon
	ofVariable                  // a value in a table of variables
	isGroup                     // a table of keys
)

const (
	maxTimeout = 24 * time.Hour // of every time-out
	maxTokens  = 1 << 30
	maxRuns    = 1000      // in a minute
	minHistory = time.Hour // of the age of changes and of work, and the half-life of recency

	minute = int64(60) // seconds
)

func (c *Config) rows() []row {
	bash, limits, roles := &c.Bash, &c.Limits, &c.Roles
	return []row{
		{"skills.dirs", &c.SkillDirs, eg{[]string{"work/skills"}}, nil, 0, "absolute, or relative to config.toml"},

		{"memory.enabled", &c.Memory, true, nil, 0, "remember, recall, and forget, for all agents"},
		{"memory.secrets", &c.Secrets, string(scan.Default), words(scan.Policies), 0,
			"what happens to a text with a secret: default: refuse a note, and redact a record of a run; redact: redact both; refuse: refuse a note, and store a notice instead of a record; warn: store both and warn; off: store both"},
		{"memory.history", c.readHistory, "on", nil, 0,
			"on: keep changes for log, undo, and show --at; off: until the next checkpoint; an age of at least 1h (90d, 12w, 1y, 36h): a checkpoint removes older changes if the oldest is a quarter older"},
		{"memory.max_spaces", &c.MaxSpaces, 1000, span{1, 100_000}, 0, "without main"},

		{"recall.importance_weight", &c.ImportanceWeight, 0, nil, 0,
			"from 0 to 1: how far the importance of an entry raises its score: 0.3 by at most 30 %. It is a mean of the importance of its metadata, the number of reads, the time since then, and links to the entry"},
		{"recall.half_life", readAge("half_life", &c.HalfLife), "30d", nil, 0, "age at which recency falls to half, at least 1h; type identity: never"},

		{"hooks.exclude", &c.Hooks.Exclude, eg{[]string{"~/work/secret"}}, checkProject, texts,
			"directories whose projects the hooks of coding agents do not read; a file .crabmem-off in a project does the same"},
		{"hooks.only", &c.Hooks.Only, eg{[]string{"~/work/shop"}}, checkProject, texts, "directories whose projects the hooks read; without it, all"},

		{"tools.bash.access", &bash.Access, "base", words{"base", "listed", "never"}, 0, "base: all agents; listed: agents that list bash in tools; never"},
		{"tools.bash.approve", &bash.Approve, "ask", words{"ask", "allowlist", "off"}, 0, "ask you before a command; allowlist: refuse it; off: run all"},
		{"tools.bash.allow", &bash.Allow, approval.Default, approval.Check, 0,
			`what runs without a question, and without a shell: names of the default list, which only read the session's directory; and programs with first words, such as "/usr/bin/git push", which run as they are`},
		{"tools.bash.timeout", &bash.Timeout, 2 * minute, during(time.Second), 0, "of a call that sets none"},
		{"tools.bash.max_timeout", &bash.MaxTimeout, 10 * minute, during(time.Second), 0, "largest timeout that a call may set"},
		{"tools.bash.max_output", &bash.MaxOutput, 64 << 10, span{1 << 10, 8 << 20}, 0, "bytes"},
		{"tools.ask_user.timeout", &c.Ask.Timeout, 5 * minute, during(time.Second), 0, "to wait for the answer"},
		{"tools.delegate.max_depth", &c.Delegate.MaxDepth, 3, span{1, 16}, 0, "delegations within delegations"},
		{"tools.delegate.max_tasks", &c.Delegate.MaxTasks, 8, span{1, 64}, 0, "of one call"},

		{"roles.branches", &roles.Branches, 5, span{0, 100}, 0, "of a channel at a time"},
		{"roles.workers", &roles.Workers, 5, span{0, 100}, 0, "of a channel at a time"},
		{"roles.waiting", &roles.Waiting, 20, span{0, 1000}, 0, "workers of a channel that wait for input"},
		{"roles.running", &roles.Running, 32, span{1, 10_000}, 0, "branches and workers of all channels at a time"},
		{"roles.wakes", &roles.Wakes, 3, span{0, 100}, 0, "runs of a channel for results, since the user's last message"},
		{"roles.wake_steps", &roles.WakeSteps, 3, span{1, 100}, 0, "model calls of such a run"},
		{"roles.wake_delay", &roles.WakeDelay, "500ms", during(0), 0, "after the last result"},
		{"roles.wake_max_delay", &roles.WakeMaxDelay, 5, during(0), 0, "after the first result"},
		{"roles.stall", &roles.Stall, 450, during(time.Second), 0, "without progress, until work is asked to stop"},
		{"roles.grace", &roles.Grace, 120, during(0), 0, "from then, until it is stopped"},
		{"roles.branch_timeout", &roles.BranchTimeout, 2 * minute, during(0), 0, "0 = none"},
		{"roles.worker_timeout", &roles.WorkerTimeout, 0, during(0), 0, "0 = none"},
		{"roles.channel_timeout", &roles.ChannelTimeout, 5 * minute, during(0), 0, "of a run; 0 = none"},
		{"roles.waiting_timeout", &roles.WaitingTimeout, 24 * 60 * minute, during(time.Second), 0, "then a worker that waits for input is closed"},
		{"roles.keep", readAge("keep", &roles.Keep), "30d", nil, 0, "age of the last outcome of work, at least 1h, from which its session goes to the trash, if the outcome was delivered"},
		{"roles.models.channel", &roles.Models.Channel, eg{Offline}, nil, 0, "of channels; default: the agent's"},
		{"roles.models.branch", &roles.Models.Branch, eg{Offline}, nil, 0, "default: that of the channel"},
		{"roles.models.worker", &roles.Models.Worker, eg{Offline}, nil, 0, "default: the agent's"},
		{"roles.models.compactor", &roles.Models.Compactor, eg{Offline}, nil, 0, "of summaries, unless the agent sets compact_model; default: the agent's"},
		{"roles.models.cortex", &roles.Models.Cortex, eg{Offline}, nil, 0, "of an agent with the role cortex; default: the agent's"},
		{"roles.task_models", &roles.TaskModels, tree{}, nil, texts, "model of workers with a task of this type"},
		{"roles.steps.channel", &roles.Steps.Channel, 5, span{1, 1000}, 0, "model calls of a run, unless the agent sets max_iterations"},
		{"roles.steps.branch", &roles.Steps.Branch, 10, span{1, 1000}, 0, "model calls of a branch"},
		{"roles.steps.worker", &roles.Steps.Worker, 50, span{1, 1000}, 0, "unless the agent sets max_iterations"},

		{"fallbacks", &c.Fallbacks, tree{}, nil, texts, "models to try if this one fails, at most 3; in place of the fallback of its provider"},

		{"compaction.background", &c.Compaction.Background, 0.80, nil, 0,
			"share of the window, the smaller one of 1.25 compact_threshold and the model's context, above which an agent with a role summarizes in the background"},
		{"compaction.urgent", &c.Compaction.Urgent, 0.85, nil, 0, "above it, the fallback model writes half as much, unless a summary is being written"},
		{"compaction.emergency", &c.Compaction.Emergency, 0.95, nil, 0, "above it, without a model, the last messages of the user and the newest steps stay"},

		{"cortex.synthesis", &c.Cortex.Synthesis, 0, during(0), 0,
			"interval at which a model rewrites the context of main as the note bulletin, if it changed; agents with inject = \"context\" read it; 0 = never"},

		{"env", &c.Env, tree{}, nil, 0, "variable of all MCP servers and workers"},

		{"tcp.listen", &c.TCP.Listen, eg{"127.0.0.1:6688"}, nil, restart, "enables TCP"},
		{"tcp.token_file", keyFile(&c.TCP.Token), eg{"keys/tcp"}, nil, variables | restart, "a file with the token, of mode 0600"},

		{"hub.sources", c.readHub, nil, nil, 0, "repositories with resources that crabmem hub installs: name, and repo, which is OWNER/REPO of GitHub, or file:///PATH"},

		{"sessions.titles", &c.Sessions.Titles, "model", words{"model", "first-line", "off"}, 0,
			"model: the model titles a session after its first turn; first-line: the first line of the first message; off: no titles"},
		{"cron.catch_up", &c.Cron.CatchUp, "12h", span{0, int64(7 * 24 * time.Hour)}, 0, "run a missed entry once, up to this late; 0 = never"},

		{"limits.connections", &limits.Connections, 256, span{1, 100_000}, restart, "of clients"},
		{"limits.subscribers", &limits.Subscribers, 64, span{1, 10_000}, 0, "clients that receive events"},
		{"limits.sessions", &limits.Sessions, 10_000, span{1, 1_000_000}, 0, "loaded at a time; the daemon evicts idle ones"},
		{"limits.in_flight", &limits.InFlight, 48 << 20, span{32 << 20, 1 << 30}, restart, "bytes of requests and responses in memory"},
		{"limits.send_queue", &limits.SendQueue, 1024, span{16, 1 << 20}, 0, "queued events per subscriber"},
		{"limits.frame_timeout", &limits.FrameTimeout, 30, during(time.Second), restart, "to receive a complete request"},
		{"limits.progress", &limits.Progress, 30, during(time.Second), restart, "that a client may pause reading"},
		{"limits.drain", &limits.Drain, 10, during(0), restart, "for active runs when the daemon stops"},
		{"limits.cooldown", &limits.Cooldown, minute, during(0), 0, "in which a model that reached a rate limit is tried last, unless the provider requests another time; 0 = none"},
		{"limits.tokens_per_day", &limits.TokensPerDay, 0, span{0, maxTokens}, 0, "of each agent, until midnight; 0 = no limit"},
		{"limits.runs_per_minute", &limits.RunsPerMinute, 0, span{0, maxRuns}, 0, "of each agent; 0 = no limit"},
		{"limits.untrusted_runs_per_minute", &limits.UntrustedRuns, 6, span{0, maxRuns}, 0, "of each untrusted sender; 0 = no limit"},
		{"limits.trusted_runs_per_minute", &limits.TrustedRuns, 30, span{0, maxRuns}, 0, "of each trusted sender; 0 = no limit"},

		{"log.max_size", &c.Log.MaxSize, 8 << 20, span{64 << 10, 1 << 30}, restart, "bytes"},
		{"log.keep", &c.Log.Keep, 3, span{0, 100}, restart, "old files to keep"},
		{"metrics.listen", &c.Metrics.Listen, eg{"127.0.0.1:9688"}, nil, restart, "a loopback address; enables metrics"},

		{"system.tasks.max_concurrent", &c.Tasks.MaxConcurrent, 4, span{1, 1000}, reference, "tasks of one delegation that run at a time"},
		{"system.tasks.task_timeout", &c.Tasks.Timeout, 5 * minute, during(time.Second), reference, "of a task"},
		{"system.tasks.viewable_window", new(int), 16, span{0, 1<<31 - 1}, reference | unused, ""},
		{"system.memory.recall_limit", &c.RecallLimit, 5, span{1, 1000}, reference, "results of recall if the model sets no limit, up to 50"},
		{"system.memory.soul_editable", new(bool), true, nil, reference | unused, ""},
	}
}

func (p *Provider) rows() []row {
	return []row{
		{"kind", &p.Kind, "openai", words(kindNames), reference, "protocol of the server; with base_url, openai is openai-compatible"},
		{"standard", &p.Kind, nil, words(kindNames), obsolete, ""}, // old name of kind
		{"base_url", &p.BaseURL, eg{"https://llm.example.com/v1"}, nil, reference | variables | address, "address of the server"},
		{"api_key", &p.APIKey, nil, nil, 0, "key for the server"},
		{"api_key_file", keyFile(&p.APIKey), eg{"keys/example"}, nil, variables, "instead of api_key; mode 0600, in the home"},
		{"models", &p.Models, eg{[]string{"large", "small"}}, nil, reference | texts, "unique across providers"},
		{"weight", &p.Weight, 1, span{0, 1<<31 - 1}, reference, "default model: the first one with the highest weight"},
		{"max_retries", &p.MaxRetries, model.DefaultMaxRetries, span{0, 100}, reference,
			"after rate limits and server errors; after other failures, or with a fallback, at most 2"},
		{"timeout", &p.Timeout, 600, during(time.Millisecond), reference, "to the first byte; by default 30 minutes for servers on this machine"},
		{"idle_timeout", &p.IdleTimeout, minute, during(time.Millisecond), 0, "between bytes of a response"},
		{"fallback", &p.Fallback, eg{[]string{"small"}}, nil, texts, "models to try if a model of this provider fails; the first 3 count"},
		{"context_limits", &p.ContextLimits, nil, span{1, maxTokens}, 0, "tokens of a model, where the built-in table is wrong"},
		{"api_version", &p.APIVersion, nil, nil, reference, "version of the interface, for azure"},
		{"region", &p.Region, nil, nil, reference | variables, "region, for bedrock"},
		{"access_key", &p.AccessKey, nil, nil, 0, "ID of the access key, for bedrock"},
		{"secret_key", &p.SecretKey, nil, nil, 0, "secret of the access key, for bedrock"},
		// The reference's built-in llama.cpp has these.
		{"model_path", nil, nil, nil, reference | obsolete, ""},
		{"n_gpu_layers", nil, nil, nil, reference | obsolete, ""},
		{"n_ctx", nil, nil, nil, reference | obsolete, ""},
		{"n_threads", nil, nil, nil, reference | obsolete, ""},
	}
}

func (m *MCP) rows() []row {
	return []row{
		{"name", &m.Name, nil, nil, reference | variables | obsolete, ""},
		{"command", &m.Command, "", nil, reference, "program of a local server"},
		{"args", &m.Args, eg{[]string{"--read-only"}}, nil, reference, "arguments of command; clients can see them"},
		{"env", &m.Env, tree{}, nil, 0, "variable of command"},
		{"auto_restart", &m.AutoRestart, true, nil, reference, "restart command when it exits"},
		{"url", &m.URL, eg{"https://mcp.example.com/mcp"}, nil, reference | variables | address, "address of a remote server"},
		{"auth", &m.Auth, false, nil, reference, "the server requires a token"},
		{"token", &m.Token, eg{"secret:remote"}, nil, 0, "sent as a bearer token"},
		{"token_file", keyFile(&m.Token), nil, nil, variables, "a file with the token, of mode 0600"},
		{"timeout", &m.Timeout, eg{2 * minute}, during(time.Second), 0, "per call"},
		{"secrets", &m.Secrets, "refuse", words{"refuse", "allow"}, 0, "calls whose arguments contain a secret, unless memory.secrets is off or warn"},
	}
}

func (a *Agent) rows() []row {
	return []row{
		{"description", &a.Description, "", nil, reference, "for the agents that may delegate to it"},
		{"model", &a.Model, eg{Offline}, nil, reference, "default: see weight"},
		{"max_iterations", &a.MaxIterations, 16, span{1, 1000}, reference, "model calls per message"},
		{"thinking", &a.Thinking, false, nil, reference, "request reasoning from the model"},
		{"tool_choice", &a.ToolChoice, eg{"required"}, nil, 0, "auto, none, required, or a tool: of the first model call per message; none: of all"},
		{"members", &a.Members, eg{[]string{"reviewer"}}, nil, reference | texts, "agents that it may delegate to, and workers that it may give tasks"},
		{"skills", &a.Skills, eg{[]string{}}, nil, reference, "skills that it may use; default: all"},
		{"skill_tags", &a.SkillTags, eg{[]string{"text"}}, nil, 0, "also skills with one of these tags"},
		{"mcps", &a.MCPs, eg{[]string{}}, nil, reference, "MCP servers that it may use; default: all"},
		{"tools", &a.Tools, eg{[]string{"read", "recall"}}, nil, 0, "also SERVER/TOOL of an MCP server; default: what the other lists permit; [] = none"},
		{"compact_threshold", &a.CompactThreshold, 100_000, span{0, maxTokens}, reference, "tokens; 0 = no automatic compaction"},
		{"compact_tokens", &a.CompactTokens, eg{4000}, span{0, maxTokens}, 0, "of a summary"},
		{"compact_model", &a.CompactModel, eg{Offline}, nil, 0, "of summaries"},
		{"compact_prompt", textFile(&a.CompactPrompt), eg{"compact.md"}, nil, 0, "instead of the built-in instructions"},
		{"flush", &a.Flush, eg{true}, nil, 0, "before an automatic compaction, the model stores notes: one to three more calls"},
		{"flush_prompt", textFile(&a.FlushPrompt), eg{"flush.md"}, nil, 0, "instead of the built-in instructions"},
		{"tokens_per_day", &a.TokensPerDay, eg{1_000_000}, span{0, maxTokens}, 0, "default: that of limits; 0 = no limit"},
		{"runs_per_minute", &a.RunsPerMinute, eg{10}, span{0, maxRuns}, 0, "default: that of limits; 0 = no limit"},
		{"memory", a.readMemory, eg{true}, nil, 0, `or the name of the space that it writes: "main"`},
		{"inject", &a.Inject, eg{"context"}, words{"off", "recall", "context"}, 0,
			"recall: the agent sees the 5 best hits for each message of the user; context: what crabmem context prints; off, the default: only what it recalls"},
		{"role", &a.Role, eg{Channel}, words{"", Channel, Cortex}, 0,
			"channel: it answers at once, and gives work to branches, to the agent worker, and to its members; cortex: it maintains the memory, too"},
		{"context", &a.Context, eg{"fork"}, words{"", "none", "fork"}, 0, "fork: as a worker, it begins with the conversation that gives it a task; none, the default: only with the task"},
		{"edit_instructions", &a.EditInstructions, eg{true}, nil, 0, "the tools read and edit open Crab.md of the home"},
		{"memory_read", &a.ReadSpaces, eg{[]string{"team"}}, nil, 0, "more spaces for recall"},
	}
}

// promptRow is a row of an agent's table only, and nameRow of its file only.
func (a *Agent) promptRow() row { return row{"prompt", &a.Prompt, nil, nil, 0, "system prompt"} }
func (a *Agent) nameRow() row   { return row{path: "name", to: &a.Name} }

func (e *Embedder) rows() []row {
	method := func(_ *section, text string) { e.Fusion, _ = fusion.ParseMethod(text) }
	return []row{
		{"static", &e.Static, nil, nil, 0, "model that crabmem model add installed; excludes the keys of an endpoint"},
		{"model", &e.Model, eg{"text-embedding-3-small"}, nil, 0, "of the endpoint"},
		{"base_url", &e.BaseURL, eg{"https://api.openai.com/v1"}, nil, variables | address, "address of the endpoint"},
		{"api_key", &e.Key, eg{"${OPENAI_API_KEY}"}, nil, 0, "or api_key_file"},
		{"api_key_file", keyFile(&e.Key), nil, nil, variables, "instead of api_key; mode 0600"},
		{"dimensions", &e.Dimensions, eg{1536}, span{1, maxDimensions}, 0, "components of a vector of this model"},
		{"send_dimensions", &e.Send, false, nil, 0, "request so many, from models that offer several"},
		{"query_prefix", &e.QueryPrefix, "", nil, 0, "text before each query, which some models require"},
		{"passage_prefix", &e.PassagePrefix, "", nil, 0, "text before each entry"},
		{"weight", &e.Weight, fusion.DefaultWeight, nil, 0, "share of meaning in a score, from 0 to 1; of a static model 0.07 by default"},
		{"fusion", method, "convex", words{"convex", "reciprocal_rank"}, 0, "or reciprocal_rank: ranks count instead of scores"},
	}
}

func originRows(r *trust.Rule) []row {
	return []row{
		{"trust", &r.Level, eg{string(trust.Trusted)}, words(trust.Levels), 0,
			"untrusted, the default; trusted: recall, remember, and forget in the sender's own space; admin: as you"},
		{"space", &r.Space, eg{PerSender}, nil, 0, "or the name of a space that all of them share"},
		{"reads", &r.Reads, eg{[]string{"team"}}, nil, 0, "more spaces for recall"},
		{"allow", &r.Allow, eg{[]string{"skill:feeds", "mcp"}}, nil, 0,
			"skill, mcp, and delegate, or one by name; for untrusted senders recall and remember"},
	}
}

// A rowGroup is the rows of a table, or of each table that users name as *.
type rowGroup struct {
	pattern string
	rows    []row
}

// groups returns all rows.
func groups() []rowGroup {
	a := new(Agent)
	return []rowGroup{
		{"provider.*", new(Provider).rows()},
		{"system.crab", a.rows()},
		{"agents.*", append(a.rows(), a.promptRow())},
		{"embedder", new(Embedder).rows()},
		{"origins.*", originRows(new(trust.Rule))},
		{"mcps.*", new(MCP).rows()},
		{"workers.*", new(ExternalWorker).rows()},
		{"", new(Config).rows()},
	}
}

// frontMatter is the pattern of the keys in agents/*.md.
const frontMatter = "agents/*"

// schema returns the rows of each table by name. A pattern is the path of a table, with *
// for each name that users choose.
var schema = sync.OnceValue(func() map[string]map[string]*row {
	all := make(map[string]map[string]*row)
	add := func(pattern, key string, r *row) {
		if all[pattern] == nil {
			all[pattern] = make(map[string]*row)
		}
		if all[pattern][key] == nil {
			all[pattern][key] = r
		}
	}
	for _, g := range groups() {
		for i := range g.rows {
			r := &g.rows[i]
			path := strings.TrimPrefix(g.pattern+"."+r.path, ".")
			pattern := ""
			for name := range strings.SplitSeq(path, ".") {
				full := strings.TrimPrefix(pattern+"."+name, ".")
				group := row{def: tree{}, marks: isGroup}
				if full == "provider.*" || full == "mcps.*" || full == "agents.*" {
					group.marks |= reference
				}
				if full == path {
					group = *r
				}
				add(pattern, name, &group)
				pattern = full
			}
			switch r.to.(type) {
			case *map[string]Secret:
				add(path, "*", &row{to: new(Secret), marks: reference | ofVariable})
			case *map[string]int:
				add(path, "*", &row{to: new(int)})
			case *map[string]string:
				add(path, "*", &row{to: new(string)})
			case *map[string][]string:
				add(path, "*", &row{to: new([]string), marks: texts})
			}
		}
	}
	add("?.env", "*", &row{to: new(Secret)})
	a := new(Agent)
	for _, r := range append(a.rows(), a.nameRow()) {
		add(frontMatter, r.path, &r)
	}
	addWorkspace(add)
	return all
})

// below returns the pattern of the table key in a table. A table without rows is "?", and
// one of variables or headers is "?.env".
func below(pattern, key string) string {
	all := schema()
	for _, name := range []string{key, "*"} {
		if all[pattern][name] == nil {
			continue
		}
		if full := strings.TrimPrefix(pattern+"."+name, "."); all[full] != nil {
			return full
		}
		return "?"
	}
	if key == "env" || key == "headers" {
		return "?.env"
	}
	return "?"
}

// defaultValue returns the default as a value of TOML, or nil.
func (r *row) defaultValue() any {
	if _, ok := r.def.(eg); ok {
		return nil
	}
	return plainValue(r.def)
}

func plainValue(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []string:
		list := make([]any, len(v))
		for i, text := range v {
			list[i] = text
		}
		return list
	}
	return v
}
