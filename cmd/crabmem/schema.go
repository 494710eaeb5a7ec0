package main

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/links"
	"crabmem/crmem/lint"
	"crabmem/crmem/recall"
	"crabmem/crmem/recalleval"
	"crabmem/daemon/op"
	"crabmem/daemon/secret"
	"crabmem/sessionlog"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
)

// sharedSchemas maps a command to another one with the same JSON output.
var sharedSchemas = map[string]string{
	"alias":        "show",
	"append":       "remember",
	"config edit":  "config set",
	"rename":       "show",
	"restore":      "show",
	"service logs": "daemon logs",
}

// types are the types of a command's JSON output. If the output has several lines, each
// line has one of the types.
type types = []reflect.Type

// outputsOf returns the types of a command's JSON output, or nil.
func outputsOf(command string) types {
	if t := memoryOutputs()[command]; t != nil {
		return t
	}
	return daemonOutputs()[command]
}

// memoryOutputs are the outputs of commands on stores and sessions.
func memoryOutputs() map[string]types {
	return map[string]types{
		"bench query":               {of[recalleval.AnswerLine]()}, // a line of bench recall --per-query
		"bench recall":              {of[benchAnswer]()},
		"checkpoint":                {of[op.Checkpointed]()},
		"demo":                      {of[demoAnswer]()},
		"diff":                      {of[diffAnswer]()},
		"dump":                      {of[op.DumpAnswer]()},
		"edit":                      {of[op.Written](), of[crmem.Entry]()},
		"export":                    {of[importer.EntryLine](), of[op.DumpAnswer]()},
		"forget":                    {of[redactedText](), of[forgotten](), of[forgettable](), of[purgedEntry]()},
		"graph":                     {of[links.Graph]()},
		"identity":                  {of[identityAnswer]()},
		"import":                    {of[imported]()},
		"inspect":                   {of[[]inspected]()},
		"links":                     {of[linksAnswer]()},
		"lint":                      {of[lintAnswer]()},
		"list":                      {of[[]crmem.EntryInfo](), of[[]op.Change]()},
		"load":                      {of[op.LoadAnswer]()},
		"log":                       {of[changeLog]()},
		"metadata adopt":            {of[adoptedAnswer]()},
		"prune":                     {of[pruned](), of[prunedHistory]()},
		"recall":                    {of[recall.Answer]()},
		"remember":                  {of[op.Written]()},
		"repair":                    {of[crmem.RepairResult](), of[crmem.CheckReport]()},
		"sessions compactions list": {of[[]sessionlog.Compaction]()},
		"sessions compactions show": {of[expandedCompaction]()},
		"sessions delete":           {of[deletedSessions]()},
		"sessions export":           {of[exportedSession](), of[map[string]any]()},
		"sessions import":           {of[importedFiles]()},
		"sessions list":             {of[[]op.SessionFile]()},
		"sessions repair":           {of[repairedSession]()},
		"sessions restore":          {of[restoredSessions]()},
		"sessions search":           {of[sessionsFound]()},
		"sessions show":             {of[shownSession]()},
		"sessions tail": {of[tailMeta](), of[tailMessage](), of[tailMarker](), of[tailTitle](), of[tailUnknown](),
			of[tailDamage](), of[shownTurn]()},
		"sessions title":  {of[op.SessionFile]()},
		"sessions verify": {of[sessionsReport]()},
		"show":            {of[crmem.Entry]()},
		"spaces adopt":    {of[adoptedSpace]()},
		"spaces create":   {of[createdSpace]()},
		"spaces list":     {of[spaceList]()},
		"spaces rename":   {of[renamedSpace]()},
		"spaces rm":       {of[removedSpace]()},
		"stats":           {of[statsAnswer]()},
		"undo":            {of[undone]()},
		"verify":          {of[crmem.CheckReport]()},
	}
}

// daemonOutputs are the outputs of the other commands.
func daemonOutputs() map[string]types {
	return map[string]types{
		"agents":             {of[[]op.Agent]()},
		"agents show":        {of[shownAgent]()},
		"chat":               {of[chat.Info](), of[chat.Reply]()},
		"compact":            {of[compacted]()},
		"completion":         {of[completionScript]()},
		"components":         {of[[]component]()},
		"config check":       {of[configChecked]()},
		"config get":         {of[any]()},
		"config path":        {of[configFile]()},
		"config set":         {of[configWritten]()},
		"cron":               {of[op.Cron]()},
		"cron remove":        {of[removedCron]()},
		"daemon":             {of[daemonState]()},
		"daemon logs":        {of[logRecord]()},
		"doctor":             {of[doctorAnswer]()},
		"error":              {of[failed]()},
		"events":             {of[event]()},
		"gateway key add":    {of[gatewayKey]()},
		"gateway key list":   {of[[]gatewayKey]()},
		"gateway key remove": {of[removedName]()},
		"init":               {of[initAnswer]()},
		"man":                {of[shownPage](), of[writtenPages]()},
		"mcp":                {of[mcpResult](), of[mcpRefusal]()},
		"mcp install":        {of[clientEdits]()},
		"mcp uninstall":      {of[clientEdits]()},
		"model add":          {of[staticModel]()},
		"model list":         {of[[]staticModel]()},
		"model remove":       {of[removedName]()},
		"models":             {of[op.ModelList]()},
		"open":               {of[openedPage]()},
		"ping":               {of[pingAnswer]()},
		"schema":             {of[[]string](), of[map[string]any]()},
		"secret list":        {of[secret.List]()},
		"secret rm":          {of[removedName]()},
		"secret set":         {of[secretWritten]()},
		"send":               {of[chat.Reply]()},
		"service":            {of[serviceState]()},
		"skills check":       {of[checkedSkills]()},
		"skills list":        {of[[]listedSkill]()},
		"skills new":         {of[begunSkill]()},
		"skills show":        {of[shownSkill]()},
		"version":            {of[versionAnswer]()},
	}
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// logRecord is a line of the daemon's log, which also has the attributes of its event.
type logRecord struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level" op:"words=DEBUG|INFO|WARN|ERROR"`
	Text  string    `json:"msg"`
}

// mcpResult is a response of crabmem mcp.
type mcpResult struct {
	Version string         `json:"jsonrpc" op:"words=2.0"`
	ID      *int64         `json:"id"`
	Result  map[string]any `json:"result"`
}

// mcpRefusal is an error response of crabmem mcp.
type mcpRefusal struct {
	Version string `json:"jsonrpc" op:"words=2.0"`
	ID      *int64 `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	} `json:"error"`
}

// schemaOf returns the schema of a command's JSON output. A command without a type has
// the schema of its parent command.
func schemaOf(command string) (schema *jsonschema.Schema, err error) {
	more := op.Schemas{
		of[importFormat](): op.OneOf(importer.Crabmem, importer.RFC0038, importer.BasicMemory, importer.Markdown, importer.Obsidian,
			importer.MemoryJSON, importer.Mem0, importer.ChatGPT, importer.Claude, importer.Transcripts, importer.Engram,
			importer.ClaudeMem, importer.Walrus, importer.Spacebot),
		of[fusion.Method]():   op.OneOf(fusion.Convex, fusion.ReciprocalRank),
		of[links.State]():     op.OneOf(links.ByName, links.ByAlias, links.Broken, links.Ambiguous),
		of[lint.Kind]():       op.OneOf(lint.Kinds...),
		of[recalleval.Mode](): op.OneOf(recalleval.Group, recalleval.Filter, recalleval.Pooled),
	}
	for name := command; name != ""; name = name[:max(0, strings.LastIndexByte(name, ' '))] {
		schema = &jsonschema.Schema{}
		for _, t := range outputsOf(cmp.Or(sharedSchemas[name], name)) {
			s, err := op.OutputSchemaOf(t, more)
			if err != nil {
				return nil, err
			}
			if t == of[logRecord]() {
				s.AdditionalProperties = nil
			}
			schema.AnyOf = append(schema.AnyOf, s)
		}
		if len(schema.AnyOf) == 0 {
			continue
		}
		if len(schema.AnyOf) == 1 {
			schema = schema.AnyOf[0]
		}
		schema.Schema, schema.Title = "https://json-schema.org/draft/2020-12/schema", command
		return schema, nil
	}
	return nil, nil
}

func schemaCommand(c *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema [COMMAND]",
		GroupID: groupShell,
		Short:   "print the JSON Schema of a command's output",
		Long: `Print the JSON Schema (2020-12) of the --json output of a command. Without
COMMAND, list the commands that have a schema. "schema error" prints the schema
of errors, which every command prints to standard error with --json.

Commands that print a stream, such as events, print one value per line.
Later versions may add properties. They do not remove or change them.`,
		Example: `  crabmem schema
  crabmem schema recall
  crabmem schema sessions list > sessions-list.json`,
		ValidArgsFunction: completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.listSchemas(cmd.Root())
			}
			schema, err := schemaOf(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if schema == nil {
				return wrongArgs(cmd, "no schema for %q", strings.Join(args, " "))
			}
			if c.JSON {
				return c.PrintJSON(schema)
			}
			text, err := json.MarshalIndent(schema, "", "  ")
			if err != nil {
				return err
			}
			_, err = c.Out.Write(append(text, '\n'))
			return err
		},
	}
}

func (c *app) listSchemas(root *cobra.Command) error {
	names := []string{"error"}
	for _, p := range manPages(root) {
		name := strings.TrimPrefix(p.CommandPath(), root.Name()+" ")
		if schema, _ := schemaOf(name); schema != nil && p.Runnable() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if c.JSON {
		return c.PrintJSON(names)
	}
	_, err := c.Out.WriteString(strings.Join(names, "\n") + "\n")
	return err
}
