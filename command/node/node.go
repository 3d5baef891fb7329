// Package node implements the commands for nodes and node pools: node status, eligibility, drain,
// artifact-cache, identity, intro, meta and config. They call an agent through package api and keep no state.
package node

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return append([]term.Command{statusCommand(), eligibilityCommand(), drainCommand(), artifactCacheStatusCommand(),
		artifactCachePurgeCommand(), identityGetCommand(), identityRenewCommand(), metaApplyCommand(), metaReadCommand(), introCreateCommand(),
		configCommand()},
		poolCommands()...)
}

// find returns the only node whose ID begins with prefix, and the client for further
// requests.
func find(ctx context.Context, e *term.Env, prefix string) (*api.Client, *api.Node, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	if len(prefix) < 2 {
		return nil, nil, fmt.Errorf("Node ID must contain at least two characters.")
	}
	nodes, _, err := c.Nodes().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix)}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying node info: %w", err)
	}
	nodes = slices.DeleteFunc(nodes, func(n *api.NodeListStub) bool { return !strings.HasPrefix(n.ID, prefix) })
	switch len(nodes) {
	case 0:
		return nil, nil, fmt.Errorf("No node(s) with prefix %q found", prefix)
	case 1:
	default:
		return nil, nil, fmt.Errorf("Prefix matched multiple nodes\n\n%s", table(nodes, term.Full, false))
	}
	n, _, err := c.Nodes().Info(nodes[0].ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying node info: %w", err)
	}
	return c, n, nil
}

// findOwn returns the node of the queried agent and ignores the prefix.
func findOwn(ctx context.Context, e *term.Env, _ string) (*api.Client, *api.Node, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	info, err := c.Agent().Self()
	if err != nil {
		return nil, nil, fmt.Errorf("Error querying agent info: %w", err)
	}
	if id := info.Stats["client"]["node_id"]; id != "" {
		return find(ctx, e, id)
	}
	return nil, nil, fmt.Errorf("The agent is not a client: specify a node ID")
}

func table(nodes []*api.NodeListStub, detail term.Detail, os bool) string {
	head := "ID|Node Pool|DC|Name|Class|"
	if os {
		head += "OS|"
	}
	if detail {
		head += "Address|Version|"
	}
	rows := []string{head + "Drain|Eligibility|Status"}
	for _, n := range nodes {
		class := n.NodeClass
		if class == "" {
			class = "<none>"
		}
		cells := []any{detail.ID(n.ID), n.NodePool, n.Datacenter, n.Name, class}
		if os {
			cells = append(cells, n.Attributes["os.name"])
		}
		if detail {
			cells = append(cells, n.Address, n.Version)
		}
		rows = append(rows, term.Row(append(cells, n.Drain, n.SchedulingEligibility, n.Status)...))
	}
	return term.Table(rows)
}

func eligibilityCommand() term.Command {
	return term.Command{
		Name: "node eligibility", Args: "<node>", MaxArgs: 1,
		Short: "Set whether a node is eligible for new allocations",
		Setup: func(f *term.Flags) term.Run {
			enable := f.Bool("enable", false, "Make the node eligible for new allocations.")
			disable := f.Bool("disable", false, "Make the node ineligible for new allocations.")
			self := f.Bool("self", false, "Use the node of the queried agent.")
			return func(ctx context.Context, e *term.Env) error {
				if *enable == *disable {
					return fmt.Errorf("Either the '-enable' or '-disable' flag must be set")
				}
				find := find
				if *self {
					find = findOwn
				}
				c, n, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				if _, err := c.Nodes().ToggleEligibility(n.ID, *enable, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error updating scheduling eligibility: %w", err)
				}
				e.Printf("Node %q scheduling eligibility set: %s for scheduling\n", n.ID,
					map[bool]string{true: "eligible", false: "ineligible"}[*enable])
				return nil
			}
		},
	}
}

func identityGetCommand() term.Command {
	return term.Command{
		Name: "node identity get", Args: "<node>", MinArgs: 1, MaxArgs: 1,
		Short: "Show the claims of a node's identity",
		Setup: func(f *term.Flags) term.Run {
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, n, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				resp, err := c.Nodes().Identity().Get(&api.NodeIdentityGetRequest{NodeID: n.ID}, (&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error requesting node identity: %w", err)
				}
				if formats.Wanted() {
					return formats.Print(e, resp.Claims)
				}
				rows := []string{"Claim Key|Claim Value"}
				for _, k := range slices.Sorted(maps.Keys(resp.Claims)) {
					rows = append(rows, term.Row(k, claim(resp.Claims[k])))
				}
				e.Println(term.Table(rows))
				return nil
			}
		},
	}
}

// claim converts integral floats to integers: JSON decodes every number as a float,
// but the numbers in claims are seconds.
func claim(v any) any {
	if n, ok := v.(float64); ok && n == math.Trunc(n) {
		return int64(n)
	}
	return v
}
