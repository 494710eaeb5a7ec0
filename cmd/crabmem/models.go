package main

import (
	"context"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/model"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// The kinds of providers, as config.toml names them.
var providerKinds = []string{"openai", "openai-compatible", "anthropic", "google", "azure", "bedrock", "ollama", "llama.cpp"}

func modelsCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "models COMMAND",
		GroupID: groupAgents,
		Short:   "list, switch, add, and remove models",
		Long: `Agents use models to generate responses. config.toml in the home directory
defines the models. These commands change the models of the running daemon until
it stops or reloads. Active calls continue. Without a daemon the exit code is 8.`,
		Example: `  crabmem models list
  crabmem models switch offline`,
	}, modelsList(c), modelsSwitch(c), modelsAdd(c), modelsRemove(c))
}

// models requests the list of models, or calls ask, which changes it. It prints
// the list, or the message done.
func (c *app) models(ctx context.Context, done string, ask func(d *client.Client) (op.ModelList, error)) error {
	return c.withDaemon(ctx, func(d *client.Client) error {
		list, err := ask(d)
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(list)
		}
		if done != "" {
			c.Say("%s; the active model is %s", done, display.Label(list.Active))
			return nil
		}
		rows := [][]string{{"", "NAME", "PROVIDER", "KIND", "CONTEXT", "BASE URL"}}
		for _, m := range list.Models {
			mark, limit := "", ""
			if m.Active {
				mark = "*"
			}
			if m.ContextLimit > 0 {
				limit = strconv.Itoa(m.ContextLimit)
			}
			rows = append(rows, []string{mark, display.Label(m.Name), display.Printable(m.Provider), display.Printable(m.Kind), limit, display.Printable(m.BaseURL)})
		}
		c.fitTable(rows, "4")
		return nil
	})
}

func modelsList(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the models",
		Long: `List the daemon's models with their providers and context sizes in tokens. A
star marks the active model.`,
		Example: `  crabmem models list
  crabmem models list --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.models(cmd.Context(), "", func(d *client.Client) (op.ModelList, error) { return op.ListModels.Do(cmd.Context(), d, op.None{}) })
	}
	return cmd
}

func modelsSwitch(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch NAME",
		Short: "select the active model",
		Long: `Select the active model. Agents without their own model use it from their next
run. To keep the choice, run crabmem config set system.crab.model NAME.`,
		Example: `  crabmem models switch offline
  crabmem models switch offline --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeModels,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.models(cmd.Context(), "switched", func(d *client.Client) (op.ModelList, error) {
			return op.SwitchModel.Do(cmd.Context(), d, op.ModelName{Name: args[0]})
		})
	}
	return cmd
}

func modelsRemove(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove a model",
		Long: `Remove a model from the running daemon. To remove the active model, switch to
another one first.`,
		Example: `  crabmem models add local llama --kind ollama -q && crabmem models remove llama
  crabmem models add local gemma --kind ollama -q && crabmem models remove gemma --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeModels,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.models(cmd.Context(), "removed "+display.Label(args[0]), func(d *client.Client) (op.ModelList, error) {
			return op.RemoveModel.Do(cmd.Context(), d, op.ModelName{Name: args[0]})
		})
	}
	return cmd
}

func modelsAdd(c *app) *cobra.Command {
	kind, url, key := "openai-compatible", "", ""
	cmd := &cobra.Command{
		Use:   "add PROVIDER MODEL...",
		Short: "add a provider with its models",
		Long: `Add a provider and its models to the running daemon, until it stops or reloads.
Other users can see command lines, so no flag takes a key. --key-env names an
environment variable of this command that contains the key.`,
		Example: `  crabmem models add local llama qwen --kind ollama
  OPENAI_API_KEY=sk-1 crabmem models add openai gpt-x --kind openai --key-env OPENAI_API_KEY`,
		Args:              atLeast(2, "PROVIDER and MODEL"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&kind, "kind", kind, "use the API of this `kind` of provider")
	cmd.Flags().StringVar(&url, "base-url", "", "use this `URL` instead of the default of the kind")
	cmd.Flags().StringVar(&key, "key-env", "", "read the key from this environment `variable`")
	completeWords(cmd, "kind", providerKinds...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := model.Provider{Name: args[0], Models: args[1:], Kind: kind, BaseURL: url}
		if key != "" {
			if p.APIKey = c.Getenv(key); p.APIKey == "" {
				return cli.Usagef("--key-env %s: variable is unset or empty", key)
			}
		}
		return c.models(cmd.Context(), "added "+display.Plural(len(p.Models), "model", "models"), func(d *client.Client) (op.ModelList, error) { return op.AddModels.Do(cmd.Context(), d, p) })
	}
	return cmd
}

// completeModels completes the name of a model of the daemon.
func (c *app) completeModels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), client.ReadWait)
	defer cancel()
	_ = c.withDaemon(ctx, func(d *client.Client) error { // no daemon, no names
		list, err := op.ListModels.Do(ctx, d, op.None{})
		for _, m := range list.Models {
			if display.Printable(m.Name) == m.Name {
				names = append(names, cobra.CompletionWithDesc(m.Name, display.Printable(m.Provider)))
			}
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
