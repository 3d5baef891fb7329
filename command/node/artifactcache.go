package node

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// cacheOptions holds the flags of node artifact-cache.
type cacheOptions struct{ formats term.Formats }

func artifactCacheStatusCommand() term.Command {
	return term.Command{
		Name: "node artifact-cache status", Args: "[node]", MaxArgs: 1,
		Short: "Show the artifacts that a node has cached",
		Long: "Nodes cache the files of artifacts that have a checksum, so that many allocations need one download. Without a node, " +
			"the command shows the cache of the agent's own node. This needs node:read.\n\n    nomad node artifact-cache status",
		Setup: func(f *term.Flags) term.Run {
			o := &cacheOptions{}
			o.formats.Declare(f)
			return o.status
		},
	}
}

func artifactCachePurgeCommand() term.Command {
	return term.Command{
		Name: "node artifact-cache purge", Args: "[node]", MaxArgs: 1,
		Short: "Remove all cached artifacts from a node",
		Long: "Downloads in progress and the files of allocations are not affected. Without a node, the command purges the cache of " +
			"the agent's own node. This needs node:write.\n\n    nomad node artifact-cache purge",
		Setup: func(*term.Flags) term.Run { return purgeCache },
	}
}

func (o *cacheOptions) status(ctx context.Context, e *term.Env) error {
	c, n, err := findMaybeOwn(ctx, e)
	if err != nil {
		return err
	}
	resp, err := c.Nodes().ArtifactCache(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error reading the artifact cache: %w", err)
	}
	if o.formats.Wanted() {
		return o.formats.Print(e, resp.Cache)
	}
	e.Println(term.Pairs([]string{
		term.Row("Size", term.Bytes(uint64(resp.Cache.Bytes))), term.Row("Limit", cacheLimit(resp.Cache)),
		term.Row("Files", len(resp.Cache.Entries)), term.Row("Hits", resp.Cache.Hits), term.Row("Misses", resp.Cache.Misses),
	}))
	if len(resp.Cache.Entries) == 0 {
		return nil
	}
	rows := []string{"SHA-256|Size|Last Use"}
	for _, f := range resp.Cache.Entries {
		rows = append(rows, term.Row(f.SHA256, term.Bytes(uint64(f.Bytes)), f.Used.Format(time.RFC3339)))
	}
	e.Println("\n" + term.Table(rows))
	return nil
}

func cacheLimit(c *api.ArtifactCache) string {
	if c.Limit == 0 {
		return "0 (the cache is off)"
	}
	return term.Bytes(uint64(c.Limit))
}

func purgeCache(ctx context.Context, e *term.Env) error {
	c, n, err := findMaybeOwn(ctx, e)
	if err != nil {
		return err
	}
	resp, err := c.Nodes().PurgeArtifactCache(n.ID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error purging the artifact cache: %w", err)
	}
	e.Println(fmt.Sprintf("Removed %s from the artifact cache of node %s", term.Bytes(uint64(resp.Freed)), n.ID))
	return nil
}

// findMaybeOwn returns the node of the first argument, or the node of the queried agent.
func findMaybeOwn(ctx context.Context, e *term.Env) (*api.Client, *api.Node, error) {
	if e.Arg(0) == "" {
		return findOwn(ctx, e, "")
	}
	return find(ctx, e, e.Arg(0))
}
