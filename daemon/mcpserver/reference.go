package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/mcpserver/compat/memgraph"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The contract of the reference memory server, @modelcontextprotocol/
// server-memory 2026.8.31: nine tools, their inputs, outputs and texts.

type entitiesIO struct {
	Entities []memgraph.Entity `json:"entities"`
}

type relationsIO struct {
	Relations []memgraph.Relation `json:"relations"`
}

type addObservationsIn struct {
	Observations []memgraph.NewObservations `json:"observations"`
}

type addObservationsOut struct {
	Results []memgraph.AddedObservations `json:"results"`
}

type deleteEntitiesIn struct {
	EntityNames []string `json:"entityNames" jsonschema:"An array of entity names to delete"`
}

type deleteObservationsIn struct {
	Deletions []memgraph.OldObservations `json:"deletions"`
}

type deleteRelationsIn struct {
	Relations []memgraph.Relation `json:"relations" jsonschema:"An array of relations to delete"`
}

type doneOut struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

type searchNodesIn struct {
	Query string `json:"query" jsonschema:"The search query to match against entity names, types, and observation content"`
}

type openNodesIn struct {
	Names []string `json:"names" jsonschema:"An array of entity names to retrieve"`
}

const graphURI = "memory://knowledge-graph"

func (s *Server) addReferenceTools() {
	reads := toolHints("", true, false, true)
	readTool(s, &mcp.Tool{Name: "read_graph", Title: "Read Graph", Description: "Read the entire knowledge graph", Annotations: reads},
		func(g *memgraph.Graph, _ struct{}) memgraph.Part {
			return g.Pick(func(memgraph.Entity) bool { return true }, true)
		})
	readTool(s, &mcp.Tool{Name: "search_nodes", Title: "Search Nodes", Description: "Search for nodes in the knowledge graph based on a query", Annotations: reads},
		func(g *memgraph.Graph, in searchNodesIn) memgraph.Part {
			q := strings.ToLower(in.Query)
			has := func(text string) bool { return strings.Contains(strings.ToLower(text), q) }
			return g.Pick(func(e memgraph.Entity) bool {
				return has(e.Name) || has(e.EntityType) || slices.ContainsFunc(e.Observations, has)
			}, false)
		})
	readTool(s, &mcp.Tool{Name: "open_nodes", Title: "Open Nodes", Description: "Open specific nodes in the knowledge graph by their names", Annotations: reads},
		func(g *memgraph.Graph, in openNodesIn) memgraph.Part {
			want := make(map[string]bool, len(in.Names))
			for _, name := range in.Names {
				want[name] = true
			}
			return g.Pick(func(e memgraph.Entity) bool { return want[e.Name] }, false)
		})
	s.sdk.AddResource(&mcp.Resource{URI: graphURI, Name: "knowledge-graph", Title: "Knowledge Graph",
		Description: "The full knowledge graph with all entities and relations", MIMEType: "application/json"}, s.readGraphResource)
	if s.o.ReadOnly {
		return
	}
	adds := toolHints("", false, false, false)
	changeTool(s, &mcp.Tool{Name: "create_entities", Title: "Create Entities", Description: "Create multiple new entities in the knowledge graph", Annotations: adds},
		func(g *memgraph.Graph, in entitiesIO) (entitiesIO, any, error) {
			made, err := g.CreateEntities(in.Entities)
			return entitiesIO{made}, made, err
		})
	changeTool(s, &mcp.Tool{Name: "create_relations", Title: "Create Relations", Annotations: adds,
		Description: "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"},
		func(g *memgraph.Graph, in relationsIO) (relationsIO, any, error) {
			made, err := g.CreateRelations(in.Relations)
			return relationsIO{made}, made, err
		})
	changeTool(s, &mcp.Tool{Name: "add_observations", Title: "Add Observations", Description: "Add new observations to existing entities in the knowledge graph", Annotations: adds},
		func(g *memgraph.Graph, in addObservationsIn) (addObservationsOut, any, error) {
			added, err := g.AddObservations(in.Observations)
			return addObservationsOut{added}, added, err
		})
	deletes := toolHints("", false, true, true)
	changeTool(s, &mcp.Tool{Name: "delete_entities", Title: "Delete Entities", Annotations: deletes,
		Description: "Delete multiple entities and their associated relations from the knowledge graph"},
		func(g *memgraph.Graph, in deleteEntitiesIn) (doneOut, any, error) {
			g.DeleteEntities(in.EntityNames)
			return doneOut{true, "Entities deleted successfully"}, nil, nil
		})
	changeTool(s, &mcp.Tool{Name: "delete_observations", Title: "Delete Observations", Annotations: deletes,
		Description: "Delete specific observations from entities in the knowledge graph"},
		func(g *memgraph.Graph, in deleteObservationsIn) (doneOut, any, error) {
			g.DeleteObservations(in.Deletions)
			return doneOut{true, "Observations deleted successfully"}, nil, nil
		})
	changeTool(s, &mcp.Tool{Name: "delete_relations", Title: "Delete Relations", Description: "Delete multiple relations from the knowledge graph", Annotations: deletes},
		func(g *memgraph.Graph, in deleteRelationsIn) (doneOut, any, error) {
			g.DeleteRelations(in.Relations)
			return doneOut{true, "Relations deleted successfully"}, nil, nil
		})
}

// readTool adds a tool that returns a part of the graph.
func readTool[In any](s *Server, t *mcp.Tool, f func(g *memgraph.Graph, in In) memgraph.Part) {
	t.OutputSchema = schemaOf[memgraph.Part]()
	addTool(s, t, schemaOf[In](), func(_ context.Context, _ *mcp.ServerSession, in In) (string, memgraph.Part, error) {
		out, err := s.graph(func(g *memgraph.Graph) memgraph.Part { return f(g, in) })
		if err != nil {
			return "", out, err
		}
		text, err := graphText(out)
		return text, out, err
	})
}

func (s *Server) graph(f func(g *memgraph.Graph) memgraph.Part) (out memgraph.Part, err error) {
	err = s.store.Read(func(st *crmem.Store) error {
		out = f(memgraph.ReadGraph(st))
		return nil
	})
	return out, err
}

// maxGraph limits the text of a graph, in bytes.
const maxGraph = crmem.MaxContent + 1<<19

// graphText returns the text that the reference server sends with v.
func graphText(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	if b.Len() > maxGraph {
		return "", &errtable.Error{Exit: errtable.ExitFailure, Kind: "too_large", Message: fmt.Sprintf("the response has %s, more than the limit of a message", display.Size(int64(b.Len()))),
			Fix: "use search_nodes or open_nodes to read a part of the graph"}
	}
	return strings.TrimSuffix(b.String(), "\n"), err
}

// changeTool adds a tool that changes the graph in one write. f returns the
// structured result and the value to show as text; nil shows the message.
func changeTool[In, Out any](s *Server, t *mcp.Tool, f func(g *memgraph.Graph, in In) (Out, any, error)) {
	t.OutputSchema = schemaOf[Out]()
	addTool(s, t, schemaOf[In](), func(ctx context.Context, _ *mcp.ServerSession, in In) (string, Out, error) {
		var out Out
		var shown any
		err := s.store.Change(ctx, func(st *crmem.Store) (_ []crmem.Op, err error) {
			g := memgraph.ReadGraph(st)
			if out, shown, err = f(g, in); err != nil {
				return nil, err
			}
			return g.Ops(), nil
		})
		if err != nil {
			return "", out, err
		}
		if done, ok := any(out).(doneOut); ok {
			return done.Message, out, nil
		}
		text, err := graphText(shown)
		return text, out, err
	})
}

func (s *Server) readGraphResource(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	out, err := s.graph(func(g *memgraph.Graph) memgraph.Part { return g.Pick(func(memgraph.Entity) bool { return true }, true) })
	if err != nil {
		return nil, s.explained(err)
	}
	text, err := graphText(out)
	if err != nil {
		return nil, s.explained(err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: graphURI, MIMEType: "application/json", Text: text}}}, nil
}
