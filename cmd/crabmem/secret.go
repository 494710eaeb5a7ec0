package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/secret"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func secretCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "secret COMMAND",
		GroupID: groupAgents,
		Short:   "store API keys, encrypted",
		Long: `Store API keys and tokens in secrets.json in the home directory. In config.toml,
the value secret:NAME is replaced by the secret NAME: in api_key, access_key,
secret_key, token, args, and env. No command prints a secret.

AES-256-GCM encrypts each value. The encryption key is in the keyring of the
system: macOS Keychain, Windows Credential Manager, or the Secret Service of a
Linux desktop. Without a keyring, or with CRABMEM_KEYRING=off, the key is in
secrets.key in the home directory. The encryption protects copies of the file
secrets.json without the key, but not against programs that run as you.`,
		Example: `  echo "$GITHUB_TOKEN" | crabmem secret set github
  crabmem secret list`,
	}, secretSet(c), secretList(c), secretRemove(c))
}

// secrets returns the store of secrets of the home.
func (c *app) secrets() *secret.Store {
	return &secret.Store{FS: c.fs, Home: c.absHome(), Keyring: secret.System(c.Getenv), LockWait: c.lockWait, Now: c.now}
}

// secretWritten is the output of secret set --json.
type secretWritten struct {
	Name     string       `json:"name"`
	Created  bool         `json:"created"`
	Key      secret.Place `json:"key"`
	Reloaded bool         `json:"reloaded"` // a daemon uses the new value
}

func secretSet(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "set NAME",
		Short: "store a secret from standard input",
		Long: `Read a value from standard input and store it as the secret NAME, or replace the
secret of that name. On a terminal, set asks for the value and does not show it.
set removes one line end from the end of the value. The value is UTF-8, from 1
byte to 64 KiB. NAME has 1 to 64 of the characters a to z, 0 to 9, and "-", and
does not begin with "-".

Exit code 0 means that the secret is on disk. If config.toml uses the secret, a
running daemon reloads its configuration. set prints where the encryption key
is. If that key is missing or wrong, set changes nothing and exits with 5.`,
		Example: `  echo "$GITHUB_TOKEN" | crabmem secret set github
  printenv GITHUB_TOKEN | crabmem secret set github --json`,
		Args:              exactly(1, "NAME; the value comes from standard input"),
		ValidArgsFunction: completeSecrets(c),
	}, func(ctx context.Context, args []string) (a secretWritten, err error) {
		a.Name = args[0]
		if err := secret.CheckName(a.Name); err != nil {
			return a, err
		}
		s := c.secrets()
		value, err := c.readSecret(ctx, a.Name)
		if err != nil {
			return a, err
		}
		if _, err := vfs.MakePrivate(s.Home); err != nil {
			return a, err
		}
		if a.Key, a.Created, err = s.Set(a.Name, value); err == nil {
			a.Reloaded = c.reloadSecrets(ctx, s.Home, a.Name)
		}
		return a, err
	}, func(a secretWritten) {
		verb, used := "replaced", ""
		if a.Created {
			verb = "created"
		}
		if a.Reloaded {
			used = "; the daemon reloaded the configuration"
		}
		c.Say("stored %s: %s%s", a.Name, verb, used)
		c.Say("%s", display.Printable(a.Key.String()))
	})
}

// readSecret reads a value from standard input, without its last line end. On a
// terminal it does not show the value.
func (c *app) readSecret(ctx context.Context, name string) (string, error) {
	in, ok := c.Stdin.(*os.File)
	if !ok || !c.IsTerminal(in) {
		value, err := c.ReadInput(ctx, secret.MaxValue+2)
		return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"), err
	}
	fd := int(in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	restore := func() {
		_ = term.Restore(fd, state) // no other way to restore it
		io.WriteString(c.Stderr, "\n")
	}
	c.hiddenInput.Store(&restore)
	defer c.hiddenInput.Store(nil)
	io.WriteString(c.Stderr, "value of "+name+": ")
	value, err := waited(ctx, c, func() ([]byte, error) { return term.ReadPassword(fd) })
	io.WriteString(c.Stderr, "\n")
	return string(value), err
}

// reloadSecrets makes a running daemon read a secret again if config.toml uses it. A
// failure is a warning: the secret is stored.
func (c *app) reloadSecrets(ctx context.Context, home, name string) bool {
	text, err := vfs.ReadFile(c.fs, filepath.Join(home, config.File), maxConfig)
	if err != nil || !usesSecret(string(text), name) {
		return false // a reload also removes the models of models add
	}
	used, err := c.reload(ctx)
	if err != nil {
		c.Warn("the daemon did not reload its configuration: " + err.Error())
		return false
	}
	return used
}

// usesSecret reports whether a text contains secret:NAME.
func usesSecret(text, name string) bool {
	parts := strings.Split(text, "secret:"+name)
	return slices.ContainsFunc(parts[1:], func(rest string) bool {
		return rest == "" || secret.CheckName("x"+rest[:1]) != nil // the name ends here
	})
}

func secretList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "list",
		Short: "list the names of secrets",
		Long: `List the names of the secrets, the time at which each was set, and where the
encryption key is. list does not read the key and does not print values.`,
		Example: `  crabmem secret list
  crabmem secret list --json`,
	}, func(context.Context, []string) (secret.List, error) {
		return c.secrets().List()
	}, func(list secret.List) {
		if len(list.Secrets) == 0 {
			c.Say("no secrets; run crabmem secret set to store one")
			return
		}
		rows := [][]string{{"NAME", "SET"}}
		for _, i := range list.Secrets {
			rows = append(rows, []string{i.Name, display.At(i.Set, c.zone())})
		}
		c.Table(c.Out, rows, "")
		c.Say("%s", display.Printable(list.Key.String()))
	})
}

func secretRemove(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "rm NAME",
		Short: "remove a secret",
		Long: `Remove the secret NAME. rm does not need the encryption key. If there is no such
secret, the exit code is 3. A running daemon keeps the old value until it
reloads its configuration or restarts. rm does not change config.toml.`,
		Example:           `  echo "$GITHUB_TOKEN" | crabmem secret set github && crabmem secret rm github`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeSecrets(c),
	}, func(_ context.Context, args []string) (removedName, error) {
		s := c.secrets()
		if err := s.Remove(args[0]); err != nil {
			return removedName{}, nearSecret(s, err)
		}
		return removedName{args[0]}, nil
	}, func(r removedName) { c.Say("removed %s", r.Removed) })
}

// nearSecret sets the fix of an unknown name to a list of the names.
func nearSecret(s *secret.Store, err error) error {
	f := classify(err)
	if f.Kind != "not_found" {
		return err
	}
	f.Remedy = "run crabmem secret list to see the names"
	if list, err := s.List(); err == nil && len(list.Secrets) > 0 {
		var names []string
		for _, i := range list.Secrets {
			names = append(names, i.Name)
		}
		f.Remedy = "use one of " + cli.Fit(strings.Join(names, ", "), 200)
	}
	return f
}

// completeSecrets completes the name of a secret.
func completeSecrets(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		list, _ := c.secrets().List() // an unreadable store has no names
		for _, i := range list.Secrets {
			found.add(i.Name)
		}
	})
}
