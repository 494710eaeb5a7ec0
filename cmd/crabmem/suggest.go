package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// otherWords maps names of commands in other programs to commands of crabmem, by
// parent command. The values are complete commands without the word crabmem.
var otherWords = map[string]map[string]string{
	"crabmem": {
		"search": "recall", "find": "recall", "query": "recall", "grep": "recall",
		"add": "remember", "save": "remember", "new": "remember", "set": "remember", "put": "remember", "store": "remember", "write": "remember", "create": "remember",
		"get": "show", "cat": "show", "read": "show", "view": "show", "print": "show",
		"rm": "forget", "del": "forget", "delete": "forget", "remove": "forget",
		"mv": "rename", "move": "rename",
		"history": "log", "changes": "log", "compare": "diff", "revert": "undo", "undelete": "restore", "unforget": "restore", "backlinks": "links",
		"logs": "daemon logs", "status": "daemon status",
		"start": "daemon start", "stop": "daemon stop", "restart": "daemon restart", "serve": "daemon", "run": "daemon",
		"backup": "export", "fsck": "verify", "check": "verify", "fix": "repair",
		"setup": "init", "login": "init", "resume": "chat", "ask": "send",
	},
	"crabmem daemon": {
		"log": "daemon logs", "up": "daemon start", "down": "daemon stop", "kill": "daemon stop", "reload": "daemon restart",
		"info": "daemon status", "ps": "daemon status", "ping": "ping", "install": "service install",
	},
	"crabmem sessions": {
		"get": "sessions show", "cat": "sessions show", "view": "sessions show", "find": "sessions search", "grep": "sessions search", "recall": "sessions search",
		"remove": "sessions delete", "forget": "sessions delete", "rename": "sessions title", "undelete": "sessions restore",
		"logs": "sessions tail", "follow": "sessions tail", "check": "sessions verify", "add": "sessions import", "resume": "chat", "new": "chat",
	},
	"crabmem cron": {
		"new": "cron add", "create": "cron add", "ls": "cron list", "rm": "cron remove", "delete": "cron remove",
	},
	"crabmem skills": {
		"add": "skills new", "create": "skills new", "get": "skills show", "cat": "skills show", "verify": "skills check", "search": "skills list",
	},
	"crabmem models": {
		"new": "models add", "delete": "models remove", "use": "models switch", "set": "models switch",
	},
	"crabmem config": {
		"show": "config get", "list": "config get", "ls": "config get", "verify": "config check", "where": "config path",
	},
}

// suggestions returns complete commands for the unknown command name: the equivalent
// of the command that other programs call name, or else commands with similar names.
func suggestions(of *cobra.Command, name string) []string {
	path := of.CommandPath()
	if other := otherWords[path][strings.ToLower(name)]; other != "" {
		return []string{of.Root().Name() + " " + other}
	}
	var list []string
	for _, like := range of.SuggestionsFor(name) {
		list = append(list, path+" "+like)
	}
	return slices.Compact(list)
}
