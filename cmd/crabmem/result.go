package main

import (
	"context"
	"reflect"

	"crabmem/daemon/client"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// types are the types of a command's JSON output. If the output has several lines, each
// line has one of the types.
type types = []reflect.Type

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// outputs records the types of a command's JSON output for crabmem schema.
func (c *app) outputs(cmd *cobra.Command, list ...reflect.Type) *cobra.Command {
	c.types[cmd] = append(c.types[cmd], list...)
	return cmd
}

// resultCommand makes cmd print the result of run: as JSON with --json, or else with text.
func resultCommand[T any](c *app, cmd *cobra.Command, run func(context.Context, []string) (T, error), text func(T)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := run(cmd.Context(), args)
		if err != nil {
			return err
		}
		return c.printResult(v, func() { text(v) })
	}
	return c.outputs(cmd, of[T]())
}

// printResult prints v as JSON with --json, or else calls text.
func (c *app) printResult(v any, text func()) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	text()
	return nil
}

// resultOf returns the result of f. with opens something and calls f with it.
func resultOf[S, T any](with func(func(S) error) error, f func(S) (T, error)) (v T, err error) {
	err = with(func(s S) (err error) {
		v, err = f(s)
		return err
	})
	return v, err
}

// busy is [cli.Streams.Busy] for a function with a result.
func busy[T any](c *app, what string, f func() (T, error)) (v T, err error) {
	err = c.Busy(what, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// ask carries out an operation of the home's daemon.
func ask[I, O any](ctx context.Context, c *app, row *op.Action[I, O], in I) (out O, err error) {
	err = c.withDaemon(ctx, func(d *client.Client) (err error) {
		out, err = row.Do(ctx, d, in)
		return err
	})
	return out, err
}

// writeStore carries out an operation on a store that exists.
func writeStore[I, O any](ctx context.Context, c *app, command string, row *op.Action[I, O], in I) (out O, err error) {
	err = c.write(ctx, command, false, func(s op.Memory) (err error) {
		out, err = row.Do(ctx, s, in)
		return err
	})
	return out, err
}
