package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeFirst completes the first argument with files, or only with directories.
func completeFirst(kind cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, kind
	}
}

// bashFallbacks defines functions of the package bash-completion if it is not loaded.
// They join words that bash split at = and :.
const bashFallbacks = `
__crabmem_words()
{
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@"
        return
    fi
    local i word line=${COMP_LINE}
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ -n ${line} && ${line} != [[:space:]]* ]]; then
            words[${#words[@]}-1]+=${word}
        else
            words+=("${word}")
        fi
        line=${line#"${line%%[![:space:]]*}"}
        line=${line#"${word}"}
        if ((i == COMP_CWORD)); then
            cword=$((${#words[@]}-1))
        fi
    done
    cur=${words[cword]} prev=
    if ((cword > 0)); then
        prev=${words[cword-1]}
    fi
}

__crabmem_files()
{
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir "$@"
        return
    fi
    local line kind=-f
    [[ ${1-} == -d ]] && kind=-d
    while IFS= read -r line; do
        COMPREPLY+=("${line}")
    done < <(compgen "${kind}" -- "${cur}")
    compopt -o filenames 2>/dev/null
}
`

// bashCompletion writes a completion script that does not need the package
// bash-completion.
func bashCompletion(root *cobra.Command, w io.Writer) error {
	var b bytes.Buffer
	if err := root.GenBashCompletionV2(&b, true); err != nil {
		return err
	}
	script := strings.NewReplacer("_get_comp_words_by_ref ", "__crabmem_words ", "_filedir", "__crabmem_files").Replace(b.String())
	first, rest, _ := strings.Cut(script, "\n")
	_, err := io.WriteString(w, first+"\n"+bashFallbacks+rest)
	return err
}

// unquoteFlags removes the backquotes from the descriptions of flags, because
// completion prints descriptions unchanged.
func unquoteFlags(cmd *cobra.Command) {
	unquote := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	cmd.Flags().VisitAll(unquote)
	cmd.PersistentFlags().VisitAll(unquote)
	for _, sub := range cmd.Commands() {
		unquoteFlags(sub)
	}
}

func completionCommand(c *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		GroupID: groupShell,
		Short:   "print a completion script for a shell",
		Long: `Print a script that completes commands, flags, and the names of entries.

The bash script does not need the package bash-completion.

bash:        source <(crabmem completion bash)
zsh:         crabmem completion zsh > "${fpath[1]}/_crabmem"
fish:        crabmem completion fish > ~/.config/fish/completions/crabmem.fish
powershell:  crabmem completion powershell | Out-String | Invoke-Expression`,
		Example: `  crabmem completion bash > crabmem.bash
  crabmem completion zsh > _crabmem`,
		Args:      exactly(1, "a shell: bash, zsh, fish, or powershell"),
		ValidArgs: shells,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		generate, ok := map[string]func(io.Writer) error{
			"bash":       func(w io.Writer) error { return bashCompletion(cmd.Root(), w) },
			"zsh":        cmd.Root().GenZshCompletion,
			"fish":       func(w io.Writer) error { return cmd.Root().GenFishCompletion(w, true) },
			"powershell": cmd.Root().GenPowerShellCompletionWithDesc,
		}[args[0]]
		if !ok {
			return wrongArgs(cmd, "unknown shell %q: want bash, zsh, fish, or powershell", args[0])
		}
		if !c.JSON {
			return generate(c.Out)
		}
		var b bytes.Buffer
		if err := generate(&b); err != nil {
			return err
		}
		return c.PrintJSON(completionScript{b.String(), args[0]})
	}
	return c.outputs(cmd, of[completionScript]())
}

// completionScript is completion --json.
type completionScript struct {
	Script string `json:"script"`
	Shell  string `json:"shell"`
}

// flatKeys appends to keys the dotted paths of all values in v and, if tables is set,
// of all tables.
func flatKeys(keys []string, prefix string, v any, tables bool) []string {
	t, ok := v.(map[string]any)
	if prefix != "" && (!ok || tables) {
		keys = append(keys, prefix)
	}
	for name, v := range t {
		if prefix != "" {
			name = prefix + "." + name
		}
		keys = flatKeys(keys, name, v, tables)
	}
	return keys
}

// completeConfigKeys completes the first argument with keys of the configuration. If
// known is set, it also completes absent keys, for config set.
func (c *app) completeConfigKeys(known bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var keys []string
		for _, k := range config.Keys() {
			if known && !strings.Contains(k.Path, "*") {
				keys = append(keys, k.Path)
			}
		}
		if v, err := c.configValue(); err == nil { // otherwise config check lists the problems
			keys = flatKeys(keys, "", v, !known)
		}
		slices.Sort(keys)
		keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool {
			return !strings.HasPrefix(k, toComplete) || display.Printable(k) != k || strings.ContainsAny(k, " \"'")
		})
		if known && len(keys) == 0 { // config set FILE
			return nil, cobra.ShellCompDirectiveDefault
		}
		return keys, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCron completes the arguments of cron add: a session, a schedule, and a
// skill. For the schedule it shows only a hint.
func completeCron(c *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return c.completeSessions(1, false)(cmd, args, toComplete)
		case 1:
			return cobra.AppendActiveHelp(nil, `SCHEDULE in quotes: minute, hour, day, month, day of week, such as "0 9 * * 1-5"`), cobra.ShellCompDirectiveNoFileComp
		case 2:
			return completeSkills(c)(cmd, nil, toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCronIDs completes the ID of a cron entry. It requests the entries from the
// daemon.
func completeCronIDs(c *app) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		ctx, cancel := context.WithTimeout(ctx, client.ReadWait)
		defer cancel()
		list, _ := ask(ctx, c, op.ListCrons, op.None{})
		for _, i := range list {
			found.describe(strconv.FormatUint(i.ID, 10), display.Printable(i.Schedule+" "+(&cron.Cron{Skill: i.Skill, Prompt: i.Prompt}).Message()))
		}
	})
}

// completeCommands completes the names of commands and their subcommands.
func completeCommands(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var names []string
	of, rest, err := cmd.Root().Find(args)
	if err == nil && len(rest) == 0 {
		for _, sub := range subcommands(of) {
			if strings.HasPrefix(sub.Name(), toComplete) {
				names = append(names, sub.Name())
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
