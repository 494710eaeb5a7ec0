package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

const (
	initListWait = 2 * time.Second  // for the models of a local server
	initCallWait = 60 * time.Second // for a list of a provider, and for the test call
	initShown    = 20               // models in a question
)

// initFlags are what a person or a script chooses.
type initFlags struct {
	provider, baseURL, model, keyEnv string
	yes, force                       bool

	in *bufio.Reader // answers; nil: no terminal
}

func initCommand(c *app) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:     "init [NAME]",
		GroupID: groupAgents,
		Short:   "configure a model, or make a workspace",
		Long: `With NAME, make a workspace in the directory NAME, or in the working directory
if NAME is ".": crabmem.toml, agents/default.toml, .gitignore, and the
directories skills, mcp, and cron. If one of the files exists, init lists it,
writes nothing, and exits with 4. See crabmem workspace.

Without NAME, write config.toml to the home directory. init looks for keys of
OpenAI, Anthropic, Gemini, OpenRouter, Groq, Mistral, DeepSeek, xAI, and Azure
in the environment, and for local servers on the ports of Ollama, LM Studio,
llama.cpp, and vLLM. It asks which provider and model to use, and where the key
is stored, and makes one test call. Variables such as OPENAI_BASE_URL set the
address; the daemon does not read them.

Without a terminal, init uses the flags, or else the first provider found, and
the file refers to the variable of the key. --yes answers each question with its
default: the key is stored with crabmem secret. If init finds no provider, the
model is offline, which answers from memory only.

If config.toml exists, init exits with 4. --force renames it to config.toml.old,
or config.toml.old-2 and so on if that name is taken.`,
		Example: `  crabmem init
  crabmem init --force --base-url http://127.0.0.1:1/v1 --model qwen3 --yes
  crabmem init shop`,
		Args: atMost(1, "NAME"),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.provider, "provider", "", "use this `provider`, such as openai, anthropic, or ollama")
	fl.StringVar(&f.baseURL, "base-url", "", "use the server at this `address`")
	fl.StringVar(&f.model, "model", "", "use this `model`")
	fl.StringVar(&f.keyEnv, "key-env", "", "refer to the key in this `variable`, and store no key")
	fl.BoolVar(&f.yes, "yes", false, "answer each question with its default")
	fl.BoolVar(&f.force, "force", false, "rename the old file, then write a new one")
	completeWords(cmd, "provider", providerNames()...)
	resultCommand(c, cmd, func(ctx context.Context, _ []string) (initAnswer, error) {
		if c.IsTerminal(c.Stdin) && !f.yes && !c.JSON {
			f.in = bufio.NewReader(c.Stdin)
		}
		return c.init(ctx, &f)
	}, c.sayInit)
	cmd.RunE = c.orWorkspace(cmd.RunE)
	return c.outputs(cmd, of[madeWorkspace]())
}

func (c *app) sayInit(a initAnswer) {
	c.Say("wrote %s", display.Printable(a.Path))
	if a.Kept != "" {
		c.Say("the old file is %s", display.Printable(a.Kept))
	}
	c.Say("model: %s", display.Printable(a.Model))
	switch {
	case a.Provider == "":
		c.Say("found no model: set a key such as OPENAI_API_KEY, start a server such as Ollama, or use --base-url; then run crabmem init --force")
	case a.Fix != "":
		c.Say("test call failed: %s", display.Printable(a.Saw))
		c.Say("try: %s", display.Printable(a.Fix))
	default:
		c.Say("test call: %s", display.Printable(a.Saw))
	}
	if a.Secret != "" {
		c.Say("the key is stored as the secret %s", a.Secret)
	}
	if a.Provider != "" {
		c.Say("next: crabmem chat")
	}
}

type initAnswer struct {
	Path     string `json:"path"`
	Model    string `json:"model"`              // that will answer
	Provider string `json:"provider,omitempty"` // empty: none was found
	BaseURL  string `json:"base_url,omitempty"` // empty: the default of the provider
	Secret   string `json:"secret,omitempty"`   // name of the stored key
	Saw      string `json:"saw,omitempty"`      // result of the test call
	Fix      string `json:"fix,omitempty"`      // empty: the test call succeeded
	Kept     string `json:"kept,omitempty"`     // new name of the old configuration
}

// choice is a provider that init can configure.
type choice struct {
	config.Known
	keyVar, key string
	models      []string // that it lists
}

// freeConfig sets the new name of an old configuration. Without force, an old
// configuration is an error.
func (c *app) freeConfig(a *initAnswer, force bool) error {
	_, err := c.fs.Lstat(a.Path)
	switch {
	case missing(err):
		a.Kept = ""
		return nil
	case err == nil && !force:
		return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: a.Path, Message: "create " + a.Path + ": file exists",
			Remedy: "use crabmem init --force to keep the old file under a new name"}
	case err == nil:
		a.Kept, err = c.freeName(a.Path + ".old")
	}
	return err
}

func (c *app) init(ctx context.Context, f *initFlags) (a initAnswer, err error) {
	home := c.homeDir()
	a = initAnswer{Path: filepath.Join(home, config.File), Model: config.Offline}
	if err := c.freeConfig(&a, f.force); err != nil { // before the search for a model
		return a, err
	}
	p, err := c.chooseProvider(ctx, f)
	if err != nil {
		return a, err
	}
	if err := vfs.MkdirAll(c.fs, home, 0o700); err != nil {
		return a, err
	}
	if _, err := vfs.MakePrivate(home); err != nil {
		return a, err
	}
	text := config.Chosen(nil, "")
	if p != nil {
		a.Provider, a.BaseURL = p.Name, p.BaseURL
		if a.Model, err = c.chooseModel(ctx, f, p); err != nil {
			return a, err
		}
		key := ""
		if p.key != "" {
			key = "${" + p.keyVar + "}"
			if f.keyEnv == "" && (f.yes || f.in != nil && isYes(f.ask(c, "store the key with crabmem secret? otherwise the file refers to "+p.keyVar, "yes"))) {
				a.Secret, key = p.Name, "secret:"+p.Name
				if _, _, err := c.secrets().Set(p.Name, p.key); err != nil {
					return a, err
				}
			}
		}
		a.Saw, a.Fix = p.test(ctx, a.Model, a.Secret != "")
		text = config.Chosen(&config.Provider{Name: p.Name, Kind: p.Kind, BaseURL: p.BaseURL, Models: []string{a.Model}}, key)
	}
	return a, c.lockConfig(home, func() error {
		if err := c.freeConfig(&a, f.force); err != nil {
			return err
		}
		if a.Kept != "" {
			if err := c.fs.Rename(a.Path, a.Kept); err != nil {
				return err
			}
		}
		return vfs.WriteFile(c.fs, a.Path, 0o600, text)
	})
}

// ask returns the answer of a person, or def for an empty line.
func (f *initFlags) ask(c *app, question, def string) string {
	fmt.Fprintf(c.Stderr, "%s [%s]: ", question, def)
	line, _ := f.in.ReadString('\n') // the end of the input is an empty line
	return cmp.Or(strings.TrimSpace(line), def)
}

// chooseProvider returns the provider to configure, or nil for the model offline.
func (c *app) chooseProvider(ctx context.Context, f *initFlags) (*choice, error) {
	if f.baseURL != "" || f.provider != "" {
		i := slices.IndexFunc(config.Providers, func(k config.Known) bool { return k.Name == f.provider })
		if i < 0 && f.baseURL == "" {
			return nil, cli.Usagef("--provider %q: want one of %s, or set --base-url", f.provider, strings.Join(providerNames(), ", "))
		}
		p := &choice{Known: config.Known{Name: "custom", Kind: "openai-compatible"}}
		if i >= 0 {
			p.Known = config.Providers[i]
		}
		c.readVariables(p, f)
		return p, nil
	}
	found := c.findProviders(ctx, f)
	if len(found) == 0 && f.in == nil {
		return nil, nil
	}
	if f.in == nil {
		return found[0], nil
	}
	for i, p := range found {
		from := "the key in " + p.keyVar
		if p.key == "" {
			from = "the server at " + p.BaseURL
		}
		fmt.Fprintf(c.Stderr, "%2d  %s, %s\n", i+1, p.Name, display.Printable(from))
	}
	def := "1"
	if len(found) == 0 {
		io.WriteString(c.Stderr, "found no key and no local server\n")
		def = "none"
	}
	switch answer := f.ask(c, "provider: a number, a base URL, or none", def); {
	case answer == "none":
		return nil, nil
	case strings.Contains(answer, "://"):
		p := &choice{Known: config.Known{Name: "custom", Kind: "openai-compatible", BaseURL: answer}}
		c.readVariables(p, f)
		return p, nil
	default:
		n, err := strconv.Atoi(answer)
		if err != nil || n < 1 || n > len(found) {
			return nil, cli.Usagef("%q is not the number of a provider", answer)
		}
		return found[n-1], nil
	}
}

func providerNames() (names []string) {
	for _, k := range config.Providers {
		names = append(names, k.Name)
	}
	return names
}

// readVariables sets the key and the base URL that flags and variables contain.
func (c *app) readVariables(p *choice, f *initFlags) {
	vars := p.KeyVars
	if f.keyEnv != "" {
		vars = []string{f.keyEnv}
	}
	for _, name := range vars {
		if p.key = c.Getenv(name); p.key != "" {
			p.keyVar = name
			break
		}
	}
	for _, name := range p.BaseVars {
		if text := c.Getenv(name); text != "" {
			p.BaseURL = baseURL(text, name == "OLLAMA_HOST")
			break
		}
	}
	p.BaseURL = cmp.Or(f.baseURL, p.BaseURL)
}

// baseURL returns the base URL that a variable means. OLLAMA_HOST is also the address that
// the server listens on, and its port is 11434 if it has none.
func baseURL(text string, ollama bool) string {
	switch hasScheme := strings.Contains(text, "://"); {
	case !hasScheme && !ollama:
		return "https://" + text
	case !hasScheme:
		if _, _, err := net.SplitHostPort(text); err != nil {
			text = net.JoinHostPort(text, "11434")
		}
		text = "http://" + text
	}
	return strings.Replace(text, "//0.0.0.0", "//localhost", 1)
}

// findProviders returns the known providers with a key, and the local servers that respond.
func (c *app) findProviders(ctx context.Context, f *initFlags) (found []*choice) {
	all := make([]*choice, len(config.Providers))
	var wg sync.WaitGroup
	for i, k := range config.Providers {
		p := &choice{Known: k}
		c.readVariables(p, &initFlags{})
		all[i] = p
		if len(k.KeyVars) == 0 {
			wg.Go(func() { p.models, _ = p.list(ctx, initListWait) })
		}
	}
	wg.Wait()
	for _, p := range all {
		if p.key != "" && (p.Kind != "azure" || p.BaseURL != "" && f.model != "") || len(p.models) > 0 {
			found = append(found, p)
		}
	}
	return found
}

func (p *choice) provider(names ...string) model.Provider {
	retries := 0
	return model.Provider{Name: p.Name, Kind: p.Kind, BaseURL: p.BaseURL, APIKey: p.key, Models: names, MaxRetries: &retries}
}

func (p *choice) list(ctx context.Context, limit time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return p.provider().List(ctx)
}

// chooseModel returns the model to use: the one of the flag, or one of the provider's list.
func (c *app) chooseModel(ctx context.Context, f *initFlags, p *choice) (string, error) {
	if f.model != "" {
		return f.model, nil
	}
	if len(p.models) == 0 {
		p.models, _ = p.list(ctx, initCallWait) // the test call reports the error
	}
	def := p.Model
	if len(p.models) > 0 && !slices.Contains(p.models, def) {
		def = p.models[0]
	}
	if f.in != nil {
		for _, name := range p.models[:min(len(p.models), initShown)] {
			fmt.Fprintf(c.Stderr, "    %s\n", display.Printable(name))
		}
		def = f.ask(c, "model", def)
	}
	if def == "" {
		return "", cli.Usagef("provider %s lists no models: set --model", p.Name)
	}
	return def, nil
}

// test makes one call, and returns what it saw, and the fix for an error. secret is set if
// the key is stored.
func (p *choice) test(ctx context.Context, name string, secret bool) (saw, fix string) {
	ctx, cancel := context.WithTimeout(ctx, initCallWait)
	defer cancel()
	r, err := model.NewRegistry(model.Network{}, []model.Provider{p.provider(name)}, "")
	if err != nil {
		return err.Error(), "run crabmem config edit to correct the provider"
	}
	defer r.Close()
	q := model.Request{Model: name, Once: true, Messages: []sessionlog.Message{{Role: record.RoleUser, Content: "Reply with the word ok."}}}
	res, err := r.Send(ctx, q)
	switch {
	case errors.Is(err, model.ErrKey):
		if secret {
			return err.Error(), "run crabmem secret set " + p.Name
		}
		return err.Error(), "set the right key in " + cmp.Or(p.keyVar, "the variable of --key-env") + " before you start the daemon"
	case err != nil:
		return err.Error(), cmp.Or(errtable.Find(err).Fix, "correct base_url with crabmem config edit")
	}
	return fmt.Sprintf("%s answered %q", name, display.Short(strings.TrimSpace(res.Message.Content), 60)), ""
}

// freeName returns a name, with the first unused number if the name exists.
func (c *app) freeName(name string) (string, error) {
	free := name
	for {
		if _, err := c.fs.Lstat(free); missing(err) {
			return free, nil
		} else if err != nil {
			return "", err
		}
		free = nextName(name, free)
	}
}

// nextName returns the name after last in the sequence NAME, NAME-2, NAME-3.
func nextName(name, last string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(last, name+"-"))
	if err != nil {
		n = 1
	}
	return name + "-" + strconv.Itoa(n+1)
}
