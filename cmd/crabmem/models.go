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
	return c.outputs(family(&cobra.Command{
		Use:     "models COMMAND",
		GroupID: groupAgents,
		Short:   "list, switch, add, and remove models",
		Long: `Agents use models to generate responses. config.toml in the home directory
defines the models. These commands change the models of the running daemon until
it stops or reloads. Active calls continue. Without a daemon the exit code is 8.`,
		Example: `  crabmem models list
  crabmem models switch offline`,
	}, modelsList(c), modelsSwitch(c), modelsAdd(c), modelsRemove(c)), of[op.ModelList]())
}

// changeModels makes cmd print the result of done for the arguments, and the active model.
func changeModels(c *app, cmd *cobra.Command, done func(args []string) string, run func(context.Context, []string) (op.ModelList, error)) *cobra.Command {
	return resultCommand(c, cmd, run, func(list op.ModelList) {
		c.Say("%s; the active model is %s", done(cmd.Flags().Args()), display.Label(list.Active))
	})
}

func modelsList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the models",
		Long: `List the daemon's models with their providers and context sizes in tokens. A
star marks the active model.`,
		Example: `  crabmem models list
  crabmem models list --json`,
	}, func(ctx context.Context, _ []string) (op.ModelList, error) {
		return ask(ctx, c, op.ListModels, op.None{})
	}, func(list op.ModelList) {
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
		c.fitTable(rows, "4", "")
	})
}

func modelsSwitch(c *app) *cobra.Command {
	return changeModels(c, &cobra.Command{
		Use:   "switch NAME",
		Short: "select the active model",
		Long: `Select the active model. Agents without their own model use it from their next
run. To keep the choice, run crabmem config set system.crab.model NAME.`,
		Example: `  crabmem models switch offline
  crabmem models switch offline --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeModels(c),
	}, func([]string) string { return "switched" }, func(ctx context.Context, args []string) (op.ModelList, error) {
		return ask(ctx, c, op.SwitchModel, op.ModelName{Name: args[0]})
	})
}

func modelsRemove(c *app) *cobra.Command {
	return changeModels(c, &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove a model",
		Long: `Remove a model from the running daemon. To remove the active model, switch to
another one first.`,
		Example: `  crabmem models add local llama --kind ollama -q && crabmem models remove llama
  crabmem models add local gemma --kind ollama -q && crabmem models remove gemma --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeModels(c),
	}, func(args []string) string { return "removed " + display.Label(args[0]) }, func(ctx context.Context, args []string) (op.ModelList, error) {
		return ask(ctx, c, op.RemoveModel, op.ModelName{Name: args[0]})
	})
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
	done := func(args []string) string { return "added " + display.Plural(len(args)-1, "model", "models") }
	return changeModels(c, cmd, done, func(ctx context.Context, args []string) (op.ModelList, error) {
		p := model.Provider{Name: args[0], Models: args[1:], Kind: kind, BaseURL: url}
		if key != "" {
			if p.APIKey = c.Getenv(key); p.APIKey == "" {
				return op.ModelList{}, cli.Usagef("--key-env %s: variable is unset or empty", key)
			}
		}
		return ask(ctx, c, op.AddModels, p)
	})
}

// completeModels completes the name of a model of the daemon.
func completeModels(c *app) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		ctx, cancel := context.WithTimeout(ctx, client.ReadWait)
		defer cancel()
		list, _ := ask(ctx, c, op.ListModels, op.None{})
		for _, m := range list.Models {
			if display.Printable(m.Name) == m.Name {
				found.describe(m.Name, display.Printable(m.Provider))
			}
		}
	})
}
