// Package config reads the configuration of the daemon: config.toml, Crab.md,
// SOUL.md, IDENTITY.md, USER.md, and agents/*.md in the home. A home without files
// is valid: it has the agent crab and the model offline.
//
// The layout is a superset of the reference's, so its config.toml is valid
// here; see [Template] for all keys. An agent is a file agents/NAME.md (YAML
// front matter, then the prompt), a table [agents.NAME], or both. If both have
// a key, the table wins, because [Set] writes tables.
//
// All errors are reported together, as [Problems]. A missing key, and an invalid file
// of an agent, concern only that provider, server, or agent: see [Config.Broken].
package config

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/secret"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"
)

const (
	// Crab is the name of the agent that is always there. It is configured by
	// [system.crab] and its prompt is the home's Crab.md.
	Crab = "crab"
	// Offline is the model that needs no provider.
	Offline = "offline"
	// File is the name of the configuration in the home.
	File = "config.toml"

	crabFile  = "Crab.md"
	maxFile   = 1 << 20  // bytes of one file
	maxPrompt = 64 << 10 // bytes of a prompt file that a key names
	maxKey    = 16 << 10 // bytes of a file with a key
	maxAgents = 1000
	maxDirs   = 32 // of skills
)

// DefaultPrompt is the prompt of the agent crab if the home has no Crab.md, SOUL.md,
// or IDENTITY.md.
const DefaultPrompt = "You are Crab, a helpful assistant that remembers. You answer briefly and plainly, and say so when you do not know."

// Config is a valid configuration, with every default filled in.
type Config struct {
	Home      string     // with links resolved
	Model     string     // the active model: crab's
	Agents    []Agent    // by name; crab is one of them
	Providers []Provider // as in the file
	// Fallbacks are the models to try when one fails, in place of those of its provider.
	Fallbacks map[string][]string
	MCPs      []MCP            // by name
	Workers   []ExternalWorker // by name; no agent has the name of one
	Env       map[string]Secret
	Memory    bool        // [memory] enabled; an agent's own switch can only turn it off
	Secrets   scan.Policy // [memory] secrets
	History   crmem.HistoryMode
	// HistoryLimit is the duration in [memory] history, or 0: changes that are older
	// leave the history, as crmem.Options defines.
	HistoryLimit time.Duration
	// ImportanceWeight and HalfLife are those of [recall], as crmem.Options defines.
	ImportanceWeight float64
	HalfLife         time.Duration
	Embedder         *Embedder // nil: recall is by words only
	MaxSpaces        int       // [memory] max_spaces: without main
	Tasks            Tasks
	SkillDirs        []string // folders of skills besides the home's; absolute
	RecallLimit      int      // hits of the tool recall, unless a call sets a limit
	Bash             Bash
	Ask              Ask
	Delegate         Delegate
	Roles            Roles
	Compaction       Compaction
	Cortex           struct{ Synthesis time.Duration } // 0: no bulletin
	Sessions         Sessions
	Hooks            Hooks
	HubSources       []HubSource
	Cron             Cron
	Limits           Limits
	TCP              TCP
	Log              Log
	Metrics          Metrics
	Origins          trust.Rules // trust in identities of other services
	// SecretFiles are the files with keys and tokens that the keys above name,
	// wherever they are.
	SecretFiles []string
	// Identity lists Crab.md and the other files of the home with instructions, in
	// the order in which agents receive them.
	Identity []Identity
	// Warnings lists settings that are valid but have no effect, by file and line.
	Warnings Problems
	// Broken lists the problems of the parts that are not in use: providers, servers,
	// and variables without their key, and agents with an invalid file.
	Broken Problems
}

// Identity is a file of instructions.
type Identity struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// Agent is one agent. A list is nil if the configuration omits it.
type Agent struct {
	Name             string
	Description      string
	Prompt           string
	File             string // file of the prompt; "" = none
	Model            string // never empty
	FollowsActive    bool   // the agent sets no model of its own, and uses the active one
	MaxIterations    int
	Thinking         bool
	ToolChoice       string // auto, none, required, or a tool
	Members          []string
	Skills           []string
	SkillTags        []string // it may use skills with one of these tags, too
	MCPs             []string
	Tools            []string
	CompactThreshold int    // tokens; 0 = off
	CompactPrompt    string // the text, "" = the built-in one
	CompactTokens    int    // that a summary may have; 0 = the built-in limit
	CompactModel     string // of summaries; "" = that of the role compactor
	Flush            bool   // the model stores notes before a summary
	FlushPrompt      string // the text, "" = the built-in one
	TokensPerDay     int    // 0 = no limit
	RunsPerMinute    int    // 0 = no limit
	Memory           bool
	Space            string            // that it writes; "" = main
	ReadSpaces       []string          // more spaces for recall
	Inject           string            // off, recall, or context
	Role             string            // "" or channel
	Context          string            // of its work: "", none, or fork
	EditInstructions bool              // read and edit open Crab.md of the home
	Origins          map[string]Origin // of the keys that the files set
}

// Origin is the place of a key.
type Origin struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

// Provider is where models are.
type Provider struct {
	Name          string
	Kind          string // openai, openai-compatible, anthropic, google, azure, bedrock, ollama or llama.cpp
	APIKey        Secret
	KeySource     string   // where the key comes from, for messages: a variable, a file, or a key
	Broken        *Problem // the key, or a variable, is missing; nil: the provider can be used
	BaseURL       string
	Models        []string
	Weight        int
	MaxRetries    int
	Timeout       time.Duration // to the first byte
	IdleTimeout   time.Duration // between chunks
	APIVersion    string
	Region        string
	AccessKey     Secret
	SecretKey     Secret
	ContextLimits map[string]int // tokens, by model
	Fallback      []string       // models to try when one of this provider fails
}

// MCP is an MCP server that was configured by hand.
type MCP struct {
	Name        string
	Command     string
	Args        []Secret // a variable in one may be a secret
	Env         map[string]Secret
	URL         string
	Auth        bool
	Token       Secret        // sent to the URL
	Timeout     time.Duration // of a call; 0 = the built-in limit
	AutoRestart bool
	Secrets     string // refuse or allow: secrets in the arguments of calls
}

// Tasks is [system.tasks].
type Tasks struct {
	MaxConcurrent int // active tasks of one delegation
	Timeout       time.Duration
}

// Bash is [tools.bash].
type Bash struct {
	Access     string        // base: for every agent; listed: for agents whose tools list it; never
	Timeout    time.Duration // default time limit of a call
	MaxTimeout time.Duration
	MaxOutput  int      // bytes of a result
	Approve    string   // ask: ask a person before commands that are not in Allow; allowlist: refuse them; off
	Allow      []string // prefixes of commands that need no approval
}

// Ask is [tools.ask_user].
type Ask struct{ Timeout time.Duration }

// Delegate is [tools.delegate].
type Delegate struct {
	MaxDepth int // delegations within delegations
	MaxTasks int // of one call
}

// Sessions is [sessions].
type Sessions struct {
	Titles string // of new sessions: model, first-line, or off
}

// Hooks is [hooks].
type Hooks struct {
	Exclude []string // directories, absolute or beginning with ~/
	Only    []string // the same; empty: all
}

// Cron is [cron].
type Cron struct {
	CatchUp time.Duration // how late a missed run may start; 0 = it does not start
}

// Limits is [limits].
type Limits struct {
	Connections  int
	Subscribers  int
	Sessions     int           // live at a time
	InFlight     int           // bytes of frames being read and answered
	SendQueue    int           // events that wait for one subscriber
	FrameTimeout time.Duration // from the first byte of a frame to its last
	Progress     time.Duration // time in which a peer must accept a byte of a response
	Drain        time.Duration // for active runs after a stop
	Cooldown     time.Duration // of a model that reached a rate limit
	// 0 is no limit.
	TokensPerDay, RunsPerMinute int // of an agent without its own
	UntrustedRuns, TrustedRuns  int // in a minute, of a sender
}

// TCP is [tcp]; an empty Listen means off.
type TCP struct {
	Listen string
	Token  Secret
}

// Log is [log]: when the daemon's log file is set aside.
type Log struct {
	MaxSize int // bytes
	Keep    int // files that were set aside
}

// Metrics is [metrics]; an empty Listen means off.
type Metrics struct {
	Listen string // a loopback address
}

// Spaces returns the spaces that an agent reads. It writes the first one.
func (a *Agent) Spaces() []string {
	return append([]string{cmp.Or(a.Space, space.Main)}, a.ReadSpaces...)
}

// Agent returns the agent of a name.
func (c *Config) Agent(name string) (Agent, bool) {
	i, ok := slices.BinarySearchFunc(c.Agents, name, func(a Agent, name string) int { return strings.Compare(a.Name, name) })
	if !ok {
		return Agent{}, false
	}
	return c.Agents[i], true
}

// Load reads the configuration of a home. getenv is os.Getenv or a replacement.
// Errors in the user's files are [Problems], including those in Broken. A missing home
// counts as a home without files.
func Load(fsys vfs.FS, home string, getenv func(string) string) (*Config, error) {
	return load(fsys, home, getenv, false)
}

// placeholder replaces a secret or an unset variable in LoadStructure.
const placeholder = "unset"

// LoadStructure is [Load] with placeholders for secrets of the store and unset
// variables. Use it for what does not depend on their values.
func LoadStructure(fsys vfs.FS, home string, getenv func(string) string) (*Config, error) {
	return load(fsys, home, func(name string) string { return cmp.Or(getenv(name), placeholder) }, true)
}

func load(fsys vfs.FS, home string, getenv func(string) string, placeholders bool) (*Config, error) {
	l, err := open(fsys, home, getenv)
	if err != nil {
		return nil, err
	}
	defer l.close()
	l.placeholders = placeholders
	text, err := l.read(File, maxFile)
	if err != nil {
		l.file(File).add(0, "%s", reason(err))
	}
	return l.load(text)
}

// A loader reads one configuration and collects problems.
type loader struct {
	fsys   vfs.FS
	home   string
	tree   vfs.RootDir // nil if the home is missing
	getenv func(string) string
	found  Problems
	vain   Problems // warnings
	broken Problems // of parts that the configuration omits
	keys   []string // files with secrets

	secrets    *secret.Values // of the store in the home; nil until used
	secretsErr error          // of reading the store

	placeholders bool // replace secrets and unset variables
	inWorkspace  bool // refuse secrets and variables
}

func open(fsys vfs.FS, home string, getenv func(string) string) (*loader, error) {
	real, err := fsys.Resolve(home)
	if err != nil {
		return nil, err
	}
	tree, err := fsys.Root(real)
	if errors.Is(err, fs.ErrNotExist) {
		tree = nil
	} else if err != nil {
		return nil, err
	}
	return &loader{fsys: fsys, home: real, tree: tree, getenv: getenv}, nil
}

func (l *loader) close() {
	if l.tree != nil {
		l.tree.Close() //nolint:errcheck // a directory that was only read
	}
}

// read returns a file of the home; a missing one is nil.
func (l *loader) read(name string, limit int64) ([]byte, error) {
	if l.tree == nil {
		return nil, nil
	}
	b, err := vfs.ReadFile(l.tree, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

// warn adds a warning about a valid place.
func (l *loader) warn(p place, format string, args ...any) {
	(&file{found: &l.vain, path: p.f.path}).add(p.line, format, args...)
}

func (l *loader) file(name string) *file {
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.home, name)
	}
	return &file{found: &l.found, path: name}
}

// part returns a file whose problems concern only a part, which the caller omits.
func (l *loader) part(f *file) *file { return &file{found: &l.broken, path: f.path} }

// load returns the configuration from the text of config.toml and the other files
// of the home.
func (l *loader) load(text []byte) (*Config, error) {
	f := l.file(File)
	d, err := parseTOML(text)
	if err != nil {
		f.syntax(err)
		d = &document{}
	}
	top := &section{l: l, f: f, src: &d.source, t: d.tree}
	top.check("")
	c := &Config{Home: l.home}
	models := providers(c, top)
	mcps(c, top)
	embedder(c, top)
	l.settings(c, top)
	origins(c, top)
	l.agents(c, top, models, l.workers(c, top))
	checkModelNames(c, top, models)
	c.SecretFiles = l.keys
	if len(l.found) > 0 {
		all := append(slices.Clone(l.found), l.broken...)
		all.sort()
		return nil, all
	}
	l.vain.sort()
	l.broken.sort()
	c.Warnings, c.Broken = l.vain, l.broken
	return c, nil
}
