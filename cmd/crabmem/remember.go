package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type rememberFlags struct {
	aliases                  []string // nil keeps those of the note
	kind                     crmem.Kind
	unnamed                  bool // name the entry by its text
	allowEmpty, allowSecrets bool
	metadata                 *metadata.Edit
	expected                 op.Expected
	conditional              bool // expected is set
}

func rememberCommand(c *app) *cobra.Command {
	var f rememberFlags
	noAlias, kind := false, crmem.Note.String()
	cmd := &cobra.Command{
		Use:     "remember [NAME] TEXT|-",
		GroupID: groupUse,
		Short:   "create or replace a note",
		Long: `Create a note, or replace the text of the note NAME. The note keeps its ID,
creation time, and aliases. --alias replaces the aliases; --no-alias removes
them. Exit code 0 means that the note is on disk. remember prints whether it
created or replaced the note, and the size of the replaced text.

Without NAME, remember names a new note by the first words of the text, followed
by the day if another entry has that name, and prints the name. One argument is
a text if it contains a space or a full-width mark such as 。; otherwise it is a
name, and remember opens the note on a terminal, as crabmem edit does. Without
arguments, the text is standard input, unless that is a terminal.

TEXT "-" reads standard input, byte for byte. remember refuses a text without a
visible character, such as the output of a failed command; --allow-empty permits
it. It also refuses keys and passwords of a known form; --allow-secrets permits
them, and [memory] secrets in config.toml sets the policy. remember never
overwrites an archive; it exits with 4. --kind archive creates an archive with a
new name.

--if-version SEQ replaces the note only if SEQ is the number of its newest
change, which crabmem log prints. --if-sha256 HEX replaces it only if its text
has this hash, as crabmem show NAME | sha256sum prints it. If another process
changed or removed the entry, or if the history does not prove the version,
remember writes nothing and exits with 4.

` + metadataHelp + `

If one of these flags sets a key, the keys expires and supersedes of the note
affect the order of recall.`,
		Example: `  crabmem remember "the canary runs for an hour before a release"
  crabmem remember deploy "build, tag, push, then watch the canary"
  crabmem remember deploy "build, tag, push" --alias ship --alias release
  crabmem remember deploy "build, tag, push" --if-version 1 || crabmem log deploy
  crabmem remember deploy-v2 "deploy from main" --type decision --tag infra --supersedes deploy
  crabmem remember vpn "the password changes monthly" --expires 2026-12-31 --meta owner=ops
  uname -a | crabmem remember machine -
  date | crabmem remember`,
		Args:              between(0, 2, "NAME and TEXT (or -), or a text in quotes"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringArrayVarP(&f.aliases, "alias", "a", nil, "set this alias `name`; may be repeated")
	cmd.Flags().BoolVar(&noAlias, "no-alias", false, "remove all aliases")
	cmd.Flags().BoolVar(&f.allowEmpty, "allow-empty", false, "permit an empty text")
	allowSecretsFlag(cmd, &f.allowSecrets)
	cmd.Flags().StringVar(&kind, "kind", kind, "create this `kind`: note or archive")
	cmd.Flags().Uint64Var(&f.expected.Version, "if-version", 0, "replace the note only if `SEQ` is its newest change")
	cmd.Flags().StringVar(&f.expected.SHA256, "if-sha256", "", "replace the note only if its text has this `hash`")
	meta := c.addMetadataFlags(cmd)
	completeWords(cmd, "kind", "note", "archive")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "alias", "no-alias"); err != nil {
			return err
		}
		f.aliases = once(f.aliases)
		if noAlias {
			f.aliases = []string{}
		}
		if err := f.kind.UnmarshalText([]byte(kind)); err != nil {
			return cli.Usagef("--kind: %v", err)
		}
		var err error
		if f.metadata, err = meta.edit(cmd); err != nil {
			return err
		}
		if f.conditional, err = checkExpected(cmd, f.expected, f.kind); err != nil {
			return err
		}
		name, text := "", "-"
		switch {
		case len(args) == 2:
			name, text = args[0], args[1]
		case f.conditional:
			return wrongArgs(cmd, "--if-version and --if-sha256 want NAME and TEXT (or -)")
		case len(args) == 1 && isText(args[0]):
			text = args[0]
		case len(args) == 1 && c.IsTerminal(c.Stdin):
			return c.rememberEdited(cmd, args[0], f.allowSecrets)
		case len(args) == 1 || c.IsTerminal(c.Stdin):
			return wrongArgs(cmd, "missing argument: want NAME and TEXT (or -), or a text of several words in quotes")
		}
		f.unnamed = len(args) < 2
		return c.remember(cmd.Context(), name, text, f)
	}
	return c.outputs(cmd, of[op.Written]())
}

// isText reports whether the only argument of remember is a text, not a name.
func isText(arg string) bool {
	return arg == "-" || strings.ContainsFunc(arg, unicode.IsSpace) || strings.ContainsAny(arg, "。，！？")
}

// rememberEdited opens the note name in an editor. The other flags of remember need a text.
func (c *app) rememberEdited(cmd *cobra.Command, name string, allow bool) (err error) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "allow-secrets" {
			err = wrongArgs(cmd, "missing argument: --%s wants NAME and TEXT (or -)", f.Name)
		}
	})
	return cmp.Or(err, c.editNamed(cmd.Context(), name, allow))
}

// remember writes the entry name, or one that f.unnamed names. The text "-" is standard
// input.
func (c *app) remember(ctx context.Context, name, text string, f rememberFlags) (err error) {
	if text == "-" {
		if text, err = c.ReadInput(ctx, crmem.MaxContent); err != nil {
			return err
		}
	}
	if !f.allowEmpty && op.IsBlank(text) {
		what := "the text"
		if !f.unnamed {
			what += " for " + display.Label(name)
		}
		return emptyText(what)
	}
	o := crmem.Remember{Name: name, Content: text, Aliases: f.aliases, Metadata: f.metadata}
	var r op.Written
	g := c.guard()
	g.AllowSecrets, g.AllowEmpty = f.allowSecrets, f.allowEmpty
	err = c.writeGuarded(ctx, "remember", true, g, func(s op.Memory) (err error) {
		switch {
		case f.conditional:
			r, err = op.Replace.Do(ctx, s, op.Replacement{Remember: o, Expected: f.expected})
			return err
		case f.kind == crmem.Note:
			r, err = op.Remember.Do(ctx, s, op.Note{Remember: o, Unnamed: f.unnamed})
			return err
		}
		list, err := s.Update(ctx, func(st *crmem.Store) (_ []crmem.Op, err error) {
			if f.unnamed {
				if o.Name, _, err = op.NewName(st, o, c.now()); err != nil {
					return nil, err
				}
			}
			content, err := o.ContentFor("")
			return []crmem.Op{crmem.Add{Name: o.Name, Content: content, Aliases: f.aliases, Kind: f.kind}}, err
		})
		if err == nil {
			r = op.Replaced(list[0], crmem.Entry{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.printWritten("remembered", r)
}

// checkExpected checks the flags for the state of the entry before the write. It
// returns whether one is set.
func checkExpected(cmd *cobra.Command, x op.Expected, k crmem.Kind) (bool, error) {
	version, hash := cmd.Flags().Changed("if-version"), cmd.Flags().Changed("if-sha256")
	if version && x.Version == 0 {
		return false, cli.Usagef("--if-version 0: want the number of a change, which crabmem log prints")
	}
	if b, err := hex.DecodeString(x.SHA256); hash && (err != nil || len(b) != sha256.Size) {
		return false, cli.Usagef("--if-sha256 %q: want %d hexadecimal digits", x.SHA256, 2*sha256.Size)
	}
	if (version || hash) && k != crmem.Note {
		return false, cli.Usagef("--if-version and --if-sha256 replace a note; --kind archive creates an entry")
	}
	return version || hash, nil
}

// printWritten prints an entry that a command wrote, and whether the command created
// or replaced it.
func (c *app) printWritten(verb string, r op.Written) error {
	return c.printResult(r, func() {
		how := "created"
		if r.Replaced != nil {
			how = fmt.Sprintf("replaced (was %s)", display.Size(*r.Replaced))
		}
		c.Say("%s %s (%s %d, %s): %s", verb, display.Label(r.Name), r.Kind, r.ID, display.Size(int64(r.Bytes)), how)
	})
}

// emptyText refuses an empty text, which is most often a mistake: the output of a
// failed command, or a file that an editor cut.
func emptyText(what string) *cli.Failure {
	return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: what + " is empty; nothing was changed",
		Remedy: "check the command that wrote it, run crabmem forget to remove the note, or use crabmem remember --allow-empty"}
}

// allowSecretsFlag adds the flag --allow-secrets.
func allowSecretsFlag(cmd *cobra.Command, allow *bool) {
	cmd.Flags().BoolVar(allow, "allow-secrets", false, "permit keys and passwords in the text")
}

func appendCommand(c *app) *cobra.Command {
	allow := false
	cmd := &cobra.Command{
		Use:     "append NAME TEXT|-",
		GroupID: groupUse,
		Short:   "add text at the end of a note",
		Long: `Add TEXT at the end of the note NAME, on a new line, atomically: concurrent
writes lose no text. TEXT "-" reads standard input, byte for byte. NAME is a
name, or an alias of exactly one note. The note keeps its ID, creation time, and
aliases.

append refuses a text without a visible character. It also refuses keys and
passwords of a known form, unless --allow-secrets is set. If the note does not
exist, append exits with 3; for an archive it exits with 4.

` + metadataHelp,
		Example: `  crabmem append deploy "then write the release notes"
  crabmem append deploy "it failed on 2026-04-14" --tag incident --caused-by tea
  date | crabmem append deploy - --json`,
		Args:              exactly(2, "NAME and TEXT (or -)"),
		ValidArgsFunction: c.completeNames(1),
	}
	allowSecretsFlag(cmd, &allow)
	meta := c.addMetadataFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		text := args[1]
		edit, err := meta.edit(cmd)
		if err != nil {
			return err
		}
		if text == "-" {
			if text, err = c.ReadInput(cmd.Context(), crmem.MaxContent); err != nil {
				return err
			}
		}
		if op.IsBlank(text) {
			f := emptyText("the text to append to " + display.Label(args[0]))
			f.Remedy = "check the command that wrote it"
			return f
		}
		var w op.Written
		g := c.guard()
		g.AllowSecrets = allow
		err = c.writeGuarded(cmd.Context(), "append", false, g, func(s op.Memory) (err error) {
			w, err = op.Append.Do(cmd.Context(), s, op.Addition{Name: args[0], Text: text, Metadata: edit})
			return err
		})
		if err != nil {
			return err
		}
		return c.printResult(w, func() {
			c.Say("appended %s to %s (%s %d, %s)", display.Size(int64(w.Bytes)-*w.Replaced), display.Label(w.Name), w.Kind, w.ID, display.Size(int64(w.Bytes)))
		})
	}
	return c.outputs(cmd, of[op.Written]())
}
