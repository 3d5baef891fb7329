package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func noChange(*api.Config) {}

// target holds the agents of a capture.
type target struct{ servers, nodes []string }

// shortNodes returns the IDs of the nodes as they are printed.
func (t *target) shortNodes(detail term.Detail) []string {
	var out []string
	for _, n := range t.nodes {
		out = append(out, detail.ID(n))
	}
	return out
}

// find returns the servers and nodes that the flags select.
func find(ctx context.Context, c *api.Client, s *settings) (*target, error) {
	t := &target{}
	members, err := c.Agent().MembersOpts((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying servers: %w", err)
	}
	var names []string
	for _, m := range members.Members {
		if m.Tags["region"] == members.ServerRegion && m.Status == "alive" {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	for _, want := range list(s.wantServers) {
		switch {
		case want == "all":
			t.servers = append(t.servers, names...)
		case want == "leader", slices.Contains(names, want):
			t.servers = append(t.servers, want)
		default:
			return nil, fmt.Errorf("No server %q: use one of %s, leader or all", want, strings.Join(names, ", "))
		}
	}
	if err := t.findNodes(ctx, c, s); err != nil {
		return nil, err
	}
	slices.Sort(t.servers)
	t.servers = slices.Compact(t.servers)
	if len(t.servers)+len(t.nodes) > maxAgents {
		return nil, fmt.Errorf("%d agents are selected, at most %d are possible: use -server-id, -node-id or -max-nodes",
			len(t.servers)+len(t.nodes), maxAgents)
	}
	return t, nil
}

// findNodes sets the nodes. They are sorted, so that a limit always selects the same nodes.
func (t *target) findNodes(ctx context.Context, c *api.Client, s *settings) error {
	wanted := list(s.wantNodes)
	if len(wanted) == 0 {
		return nil
	}
	nodes, _, err := c.Nodes().List((&api.QueryOptions{AllowStale: s.stale}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying nodes: %w", err)
	}
	for _, want := range wanted {
		before := len(t.nodes)
		for _, n := range nodes {
			if (want == "all" || strings.HasPrefix(n.ID, want)) && (s.class == "" || n.NodeClass == s.class) && n.Status == "ready" {
				t.nodes = append(t.nodes, n.ID)
			}
		}
		if len(t.nodes) == before && want != "all" {
			return fmt.Errorf("No ready node with the prefix %q", want)
		}
	}
	slices.Sort(t.nodes)
	t.nodes = slices.Compact(t.nodes)
	if s.maxNodes > 0 && len(t.nodes) > s.maxNodes {
		t.nodes = t.nodes[:s.maxNodes]
	}
	return nil
}

// list splits a flag at commas. "none" is empty.
func list(flag string) []string {
	var out []string
	for _, v := range strings.Split(flag, ",") {
		if v = strings.TrimSpace(v); v != "" && v != "none" {
			out = append(out, v)
		}
	}
	return out
}
