package links

import "slices"

// Cycles returns cycles of one relation. For each set of entries that all lead to each
// other, it returns a shortest way from the lowest ID of the set back to it: the IDs
// without the repeated one. An entry that links to itself is a set.
func (g *Graph) Cycles(relation string) (cycles [][]uint64) {
	next := make(map[uint64][]uint64)
	for _, e := range g.Edges {
		if e.Relation == relation {
			next[e.From] = append(next[e.From], e.To)
		}
	}
	c := components{next: next, low: make(map[uint64]int), of: make(map[uint64]int)}
	for _, n := range g.Nodes { // ascending, so the first node of a component is the lowest
		if next[n.ID] != nil {
			c.visit(n.ID)
		}
	}
	done := make(map[int]bool)
	for _, n := range g.Nodes {
		set, ok := c.of[n.ID]
		if !ok || done[set] {
			continue
		}
		done[set] = true
		if way := c.way(n.ID); way != nil {
			cycles = append(cycles, way)
		}
	}
	return cycles
}

// components finds strongly connected components, with the algorithm of Tarjan and
// without recursion.
type components struct {
	next  map[uint64][]uint64
	count int            // of visited nodes
	low   map[uint64]int // the smallest number of a node that a visited node leads to
	stack []uint64
	of    map[uint64]int // the component of each node
}

// step is a node whose first edges were followed.
type step struct {
	node   uint64
	number int
	edges  int
}

// visit assigns components to a node and to the nodes that it leads to.
func (c *components) visit(root uint64) {
	if c.low[root] > 0 {
		return
	}
	calls := []step{c.enter(root)}
	for len(calls) > 0 {
		at := &calls[len(calls)-1]
		if at.edges < len(c.next[at.node]) {
			to := c.next[at.node][at.edges]
			at.edges++
			if c.low[to] == 0 {
				calls = append(calls, c.enter(to))
			} else if _, ok := c.of[to]; !ok {
				c.low[at.node] = min(c.low[at.node], c.low[to])
			}
			continue
		}
		if c.low[at.node] == at.number {
			for member := at.node + 1; member != at.node; {
				member = c.stack[len(c.stack)-1]
				c.stack = c.stack[:len(c.stack)-1]
				c.of[member] = at.number
			}
		}
		low := c.low[at.node]
		if calls = calls[:len(calls)-1]; len(calls) > 0 {
			from := calls[len(calls)-1].node
			if _, ok := c.of[at.node]; !ok {
				c.low[from] = min(c.low[from], low)
			}
		}
	}
}

func (c *components) enter(node uint64) step {
	c.count++
	c.low[node] = c.count
	c.stack = append(c.stack, node)
	return step{node: node, number: c.count}
}

// way returns a shortest way from a node to itself within its component, or nil.
func (c *components) way(from uint64) []uint64 {
	before := make(map[uint64]uint64)
	queue := []uint64{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range c.next[at] {
			if to == from {
				way := []uint64{at}
				for at != from {
					at = before[at]
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := before[to]; !seen && c.of[to] == c.of[from] {
				before[to] = at
				queue = append(queue, to)
			}
		}
	}
	return nil
}
