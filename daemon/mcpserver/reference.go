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
	"crabmem/daemon/mcpserver/memgraph"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The contract of the reference memory server, @modelcontextprotocol/
// server-memory 2026.8.31: nine tools, their inputs, outputs and texts.

type graphOut struct {
	Entities  []memgraph.Entity   `json:"entities"`
	Relations []memgraph.Relation `json:"relations"`
}

type entitiesIO struct {
	Entities []memgraph.Entity `json:"entities"`
}

type relationsIO struct {
	Relations []memgraph.Relation `json:"relations"`
}

type newObservations struct {
	EntityName string   `json:"entityName" jsonschema:"The name of the entity to add the observations to"`
	Contents   []string `json:"contents" jsonschema:"An array of observation contents to add"`
}

type addObservationsIn struct {
	Observations []newObservations `json:"observations"`
}

type addedObservations struct {
	EntityName        string   `json:"entityName"`
	AddedObservations []string `json:"addedObservations"`
}

type addObservationsOut struct {
	Results []addedObservations `json:"results"`
}

type deleteEntitiesIn struct {
	EntityNames []string `json:"entityNames" jsonschema:"An array of entity names to delete"`
}

type oldObservations struct {
	EntityName   string   `json:"entityName" jsonschema:"The name of the entity containing the observations"`
	Observations []string `json:"observations" jsonschema:"An array of observations to delete"`
}

type deleteObservationsIn struct {
	Deletions []oldObservations `json:"deletions"`
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
		func(g *graph, _ struct{}) graphOut {
			return g.pick(func(memgraph.Entity) bool { return true }, true)
		})
	readTool(s, &mcp.Tool{Name: "search_nodes", Title: "Search Nodes", Description: "Search for nodes in the knowledge graph based on a query", Annotations: reads},
		func(g *graph, in searchNodesIn) graphOut {
			q := strings.ToLower(in.Query)
			has := func(text string) bool { return strings.Contains(strings.ToLower(text), q) }
			return g.pick(func(e memgraph.Entity) bool {
				return has(e.Name) || has(e.EntityType) || slices.ContainsFunc(e.Observations, has)
			}, false)
		})
	readTool(s, &mcp.Tool{Name: "open_nodes", Title: "Open Nodes", Description: "Open specific nodes in the knowledge graph by their names", Annotations: reads},
		func(g *graph, in openNodesIn) graphOut {
			want := make(map[string]bool, len(in.Names))
			for _, name := range in.Names {
				want[name] = true
			}
			return g.pick(func(e memgraph.Entity) bool { return want[e.Name] }, false)
		})
	s.sdk.AddResource(&mcp.Resource{URI: graphURI, Name: "knowledge-graph", Title: "Knowledge Graph",
		Description: "The full knowledge graph with all entities and relations", MIMEType: "application/json"}, s.readGraphResource)
	if s.o.ReadOnly {
		return
	}
	adds := toolHints("", false, false, false)
	changeTool(s, &mcp.Tool{Name: "create_entities", Title: "Create Entities", Description: "Create multiple new entities in the knowledge graph", Annotations: adds},
		func(g *graph, in entitiesIO) (entitiesIO, any, error) {
			made, err := g.createEntities(in.Entities)
			return entitiesIO{made}, made, err
		})
	changeTool(s, &mcp.Tool{Name: "create_relations", Title: "Create Relations", Annotations: adds,
		Description: "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"},
		func(g *graph, in relationsIO) (relationsIO, any, error) {
			made, err := g.createRelations(in.Relations)
			return relationsIO{made}, made, err
		})
	changeTool(s, &mcp.Tool{Name: "add_observations", Title: "Add Observations", Description: "Add new observations to existing entities in the knowledge graph", Annotations: adds},
		func(g *graph, in addObservationsIn) (addObservationsOut, any, error) {
			added, err := g.addObservations(in.Observations)
			return addObservationsOut{added}, added, err
		})
	deletes := toolHints("", false, true, true)
	changeTool(s, &mcp.Tool{Name: "delete_entities", Title: "Delete Entities", Annotations: deletes,
		Description: "Delete multiple entities and their associated relations from the knowledge graph"},
		func(g *graph, in deleteEntitiesIn) (doneOut, any, error) {
			g.deleteEntities(in.EntityNames)
			return doneOut{true, "Entities deleted successfully"}, nil, nil
		})
	changeTool(s, &mcp.Tool{Name: "delete_observations", Title: "Delete Observations", Annotations: deletes,
		Description: "Delete specific observations from entities in the knowledge graph"},
		func(g *graph, in deleteObservationsIn) (doneOut, any, error) {
			g.deleteObservations(in.Deletions)
			return doneOut{true, "Observations deleted successfully"}, nil, nil
		})
	changeTool(s, &mcp.Tool{Name: "delete_relations", Title: "Delete Relations", Description: "Delete multiple relations from the knowledge graph", Annotations: deletes},
		func(g *graph, in deleteRelationsIn) (doneOut, any, error) {
			g.deleteRelations(in.Relations)
			return doneOut{true, "Relations deleted successfully"}, nil, nil
		})
}

// readTool adds a tool that answers with a part of the graph.
func readTool[In any](s *Server, t *mcp.Tool, f func(g *graph, in In) graphOut) {
	addTool(s, t, nil, func(_ context.Context, in In) (string, graphOut, error) {
		out, err := s.graph(func(g *graph) graphOut { return f(g, in) })
		if err != nil {
			return "", out, err
		}
		text, err := graphText(out)
		return text, out, err
	})
}

func (s *Server) graph(f func(g *graph) graphOut) (out graphOut, err error) {
	err = s.store.read(func(st *crmem.Store) error {
		out = f(readGraph(st))
		return nil
	})
	return out, err
}

// graphText is what the reference server answers beside the structure.
func graphText(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	if b.Len() > maxMessage/2 {
		return "", &errtable.Error{Exit: errtable.ExitFailure, Kind: "too_large", Message: fmt.Sprintf("the response has %s, more than the limit of a message", display.Size(int64(b.Len()))),
			Fix: "use search_nodes or open_nodes to read a part of the graph"}
	}
	return strings.TrimSuffix(b.String(), "\n"), err
}

// changeTool adds a tool that changes the graph in one write. Its text is
// what f returns for it or, where that is nil, the message.
func changeTool[In, Out any](s *Server, t *mcp.Tool, f func(g *graph, in In) (Out, any, error)) {
	addTool(s, t, nil, func(ctx context.Context, in In) (string, Out, error) {
		var out Out
		var shown any
		err := s.store.change(ctx, func(st *crmem.Store) (_ []crmem.Op, err error) {
			g := readGraph(st)
			if out, shown, err = f(g, in); err != nil {
				return nil, err
			}
			return g.ops(), nil
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
	out, err := s.graph(func(g *graph) graphOut { return g.pick(func(memgraph.Entity) bool { return true }, true) })
	if err != nil {
		return nil, s.explained(err)
	}
	text, err := graphText(out)
	if err != nil {
		return nil, s.explained(err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: graphURI, MIMEType: "application/json", Text: text}}}, nil
}

// pick returns the entities that want wants, and the relations that start or
// end at one of them; with all, those of others too.
func (g *graph) pick(want func(memgraph.Entity) bool, all bool) graphOut {
	out := graphOut{Entities: []memgraph.Entity{}, Relations: []memgraph.Relation{}}
	picked := make(map[string]bool)
	for _, n := range g.nodes {
		e := memgraph.Entity{Name: n.Name, EntityType: n.EntityType, Observations: n.Observations}
		if n.Entity && want(e) {
			out.Entities = append(out.Entities, e)
			picked[n.Name] = true
		}
	}
	for _, n := range g.nodes {
		for _, r := range n.Relations {
			if all || picked[r.From] || picked[r.To] {
				out.Relations = append(out.Relations, r)
			}
		}
	}
	return out
}

func (g *graph) createEntities(entities []memgraph.Entity) ([]memgraph.Entity, error) {
	made := []memgraph.Entity{}
	for _, e := range entities {
		n, err := g.node(e.Name)
		if err != nil {
			return nil, err
		}
		if n.Entity {
			continue
		}
		n.Entity, n.EntityType, n.Observations, n.Changed = true, e.EntityType, slices.Clone(e.Observations), true
		made = append(made, e)
	}
	return made, nil
}

func (g *graph) createRelations(relations []memgraph.Relation) ([]memgraph.Relation, error) {
	made := []memgraph.Relation{}
	for _, r := range relations {
		n, err := g.node(r.From)
		if err != nil {
			return nil, err
		}
		if slices.Contains(n.Relations, r) {
			continue
		}
		n.Relations, n.Changed = append(n.Relations, r), true
		made = append(made, r)
	}
	return made, nil
}

func (g *graph) addObservations(list []newObservations) ([]addedObservations, error) {
	added := []addedObservations{}
	for _, o := range list {
		n := g.named[o.EntityName]
		if n == nil || !n.Entity {
			return nil, &errtable.Error{Exit: errtable.ExitNotFound, Kind: "invalid", Message: "Entity with name " + o.EntityName + " not found"}
		}
		fresh := []string{}
		for _, text := range o.Contents {
			if !slices.Contains(n.Observations, text) {
				fresh = append(fresh, text)
			}
		}
		if len(fresh) > 0 {
			n.Observations, n.Changed = append(n.Observations, fresh...), true
		}
		added = append(added, addedObservations{o.EntityName, fresh})
	}
	return added, nil
}

func (g *graph) deleteEntities(names []string) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = true
	}
	for _, n := range g.nodes {
		if gone[n.Name] {
			n.Entity, n.Relations, n.Changed = false, nil, true
			continue
		}
		n.KeepRelations(func(r memgraph.Relation) bool { return !gone[r.To] })
	}
}

func (g *graph) deleteObservations(list []oldObservations) {
	for _, d := range list {
		n := g.named[d.EntityName]
		if n == nil || !n.Entity {
			continue
		}
		before := len(n.Observations)
		n.Observations = slices.DeleteFunc(n.Observations, func(o string) bool { return slices.Contains(d.Observations, o) })
		n.Changed = n.Changed || len(n.Observations) != before
	}
}

func (g *graph) deleteRelations(list []memgraph.Relation) {
	gone := make(map[memgraph.Relation]bool, len(list))
	for _, r := range list {
		gone[r] = true
	}
	for _, n := range g.nodes {
		n.KeepRelations(func(r memgraph.Relation) bool { return !gone[r] })
	}
}
