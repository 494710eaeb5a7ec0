package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/role"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand(c *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "man [COMMAND]",
		GroupID: groupShell,
		Short:   "print a manual page",
		Long: `Print the manual page of crabmem, or of one command. --dir writes all pages to a
directory, as crabmem.1, crabmem-recall.1, and so on. The pages contain the same
texts as --help.`,
		Example: `  crabmem man > crabmem.1
  crabmem man recall > crabmem-recall.1
  crabmem man sessions list > crabmem-sessions-list.1
  crabmem man --dir man1`,
	}
	cmd.ValidArgsFunction = completeCommands
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && dir != "" {
			return wrongArgs(cmd, "want one COMMAND, or --dir, not both")
		}
		return nil
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write all pages to this `directory`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pages := manPages(cmd.Root())
		if dir == "" {
			want := strings.Join(args, " ")
			path := strings.TrimSpace(cmd.Root().Name() + " " + want)
			if want == "" {
				want = path
			}
			for _, p := range pages {
				if p.CommandPath() != path {
					continue
				}
				if !c.JSON {
					return manPage(c.Out, p)
				}
				var b strings.Builder
				if err := manPage(&b, p); err != nil {
					return err
				}
				return c.PrintJSON(shownPage{want, b.String()})
			}
			return wrongArgs(cmd, "no manual page: unknown command %q", want)
		}
		if err := vfs.MkdirAll(c.fs, dir, 0o755); err != nil {
			return err
		}
		names := make([]string, len(pages))
		for i, p := range pages {
			names[i] = filepath.Join(dir, strings.ReplaceAll(p.CommandPath(), " ", "-")+".1")
			err := vfs.Replace(c.fs, names[i], 0o644, func(w io.Writer) error { return manPage(w, p) })
			if err != nil {
				return err
			}
		}
		return c.printResult(writtenPages{names}, func() {
			c.Say("wrote %s to %s", display.Plural(len(names), "page", "pages"), display.Printable(dir))
		})
	}
	return c.outputs(cmd, of[shownPage](), of[writtenPages]())
}

// manPages returns the commands that have a page, a family before its members.
func manPages(root *cobra.Command) []*cobra.Command {
	pages := []*cobra.Command{root}
	for _, cmd := range subcommands(root) {
		pages = append(pages, manPages(cmd)...)
	}
	return pages
}

// docPages returns the help of all commands for agents, and of config its keys. The first line of
// a page is the summary of its command.
func docPages() (list []role.Page) {
	for _, cmd := range manPages(rootCommand(newApp(nil, nil, nil))) {
		var b strings.Builder
		b.WriteString(cmd.Short + "\n\n")
		cmd.SetOut(&b)
		printHelp(cmd, nil)
		if cmd.CommandPath() == "crabmem config" {
			b.WriteString("\nKeys:\n")
			for _, k := range config.Keys() {
				b.WriteString("  " + k.Path + ": " + k.String() + "\n")
			}
		}
		list = append(list, role.Page{ID: strings.TrimPrefix(cmd.CommandPath(), "crabmem "), Text: b.String()})
	}
	return list
}

// manPage writes the page of one command with the man macros. It omits the
// date, so that the same program always writes the same page. cobra/doc writes
// the date, "-" for "\-", and flags without the names of their arguments; its
// Markdown parser adds 0.3 ms to each start and 258 kB to the program.
func manPage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"crabmem\" \"crabmem manual\"\n", roff(strings.ToUpper(title)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(title), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, cmd.Long)
	if subs := subcommands(cmd); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Use), roff(sub.Short))
		}
	}
	if cmd.CommandPath() == "crabmem config" {
		b.WriteString(".SH KEYS\n")
		for _, k := range config.Keys() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(k.Path), roff(k.String()))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	if cmd.HasParent() {
		manFlags(&b, cmd.LocalFlags())
		parent := strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(parent))
	} else {
		manFlags(&b, cmd.PersistentFlags())
	}
	b.WriteString(".SH EXAMPLES\n.nf\n")
	for line := range strings.Lines(cmd.Example) {
		b.WriteString(roff(strings.TrimSpace(line)) + "\n")
	}
	b.WriteString(".fi\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func manFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if arg != "" {
			name += " " + arg
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roff(usage))
	})
}

func paragraphs(b *strings.Builder, text string) {
	for i, p := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(p) + "\n")
	}
}

// roff escapes text: backslashes, hyphens, and requests at the start of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// shownPage is man --json.
type shownPage struct {
	Command string `json:"command"`
	Page    string `json:"page"`
}

// writtenPages is man --dir --json.
type writtenPages struct {
	Files []string `json:"files"`
}
