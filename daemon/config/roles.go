package config

import "time"

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
}

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
