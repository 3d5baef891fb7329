package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func metaApplyCommand() term.Command {
	return term.Command{
		Name: "node meta apply", Args: "[<key>=<value>...]", MaxArgs: -1,
		Short: "Change the metadata of a node",
		Long: "Each argument sets a key; a key without = gets an empty value. The change survives restarts of the " +
			"agent and overrides its configuration. " +
			"Constraints use it as soon as the node has registered again. This needs node:write.\n\n" +
			"    nomad node meta apply -unset=maintenance rack=r7",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("node-id", "", "The `node`. Default: the node of the queried agent.")
			unset := f.String("unset", "", "Remove these comma-separated `keys`.")
			return func(ctx context.Context, e *term.Env) error { return applyMeta(ctx, e, *id, *unset) }
		},
	}
}

func metaReadCommand() term.Command {
	return term.Command{
		Name: "node meta read", MaxArgs: 0,
		Short: "Show the metadata of a node",
		Long: "The sections are the metadata of the node, the part set by node meta apply, and the part set in the " +
			"agent's configuration. This needs node:read.",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("node-id", "", "The `node`. Default: the node of the queried agent.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				c, full, err := metaNode(ctx, e, *id)
				if err != nil {
					return err
				}
				meta, err := c.Nodes().Meta().Read(full, (&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error reading dynamic node metadata: %w", err)
				}
				if formats.Wanted() {
					return formats.Print(e, meta)
				}
				printMeta(e, meta)
				return nil
			}
		},
	}
}

func applyMeta(ctx context.Context, e *term.Env, id, unset string) error {
	changes := map[string]*string{}
	for _, arg := range e.Args {
		key, value, _ := strings.Cut(arg, "=")
		changes[key] = &value
	}
	if unset != "" {
		for key := range strings.SplitSeq(unset, ",") {
			changes[strings.TrimSpace(key)] = nil
		}
	}
	if len(changes) == 0 {
		return errors.New("At least one key=value argument or -unset is required")
	}
	c, full, err := metaNode(ctx, e, id)
	if err != nil {
		return err
	}
	if _, err := c.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: full, Meta: changes},
		(&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("Error applying dynamic node metadata: %w", err)
	}
	return nil
}

// metaNode returns the full ID of a node. Without a prefix it returns "", the node of the agent.
func metaNode(ctx context.Context, e *term.Env, prefix string) (*api.Client, string, error) {
	if prefix == "" {
		c, err := e.Client()
		return c, "", err
	}
	c, n, err := find(ctx, e, prefix)
	if err != nil {
		return nil, "", err
	}
	return c, n.ID, nil
}

func printMeta(e *term.Env, meta *api.NodeMetaResponse) {
	e.Println(e.Bold("All Meta") + "\n" + pairsOf(meta.Meta))
	dynamic := map[string]string{}
	for k, v := range meta.Dynamic {
		if dynamic[k] = "<unset>"; v != nil {
			dynamic[k] = *v
		}
	}
	e.Println("\n" + e.Bold("Dynamic Meta") + "\n" + pairsOf(dynamic))
	e.Println("\n" + e.Bold("Static Meta") + "\n" + pairsOf(meta.Static))
}

func pairsOf(m map[string]string) string {
	var rows []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, term.Row(k, m[k]))
	}
	return term.Pairs(rows)
}
