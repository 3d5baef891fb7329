package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/renewal"
	"github.com/open-nomad/open-nomad/command/term"
)

// renewing holds the flags of node identity renew.
type renewing struct {
	pool string
	all  bool
	over renewal.Flags
}

func identityRenewCommand() term.Command {
	return term.Command{
		Name: "node identity renew", Args: "[node]", MaxArgs: 1,
		Short: "Make nodes renew their identity immediately",
		Long: "Either a node, -node-pool or -all is required. Requests to several nodes are spread over the " +
			"duration of -over. Nodes that cannot be reached are listed, and the exit code is 1. " +
			"A node that cannot reach a server retries the renewal, even after a restart of its agent.",
		Setup: func(f *term.Flags) term.Run {
			r := &renewing{}
			f.StringVar(&r.pool, "node-pool", "", "Renew the identities of all nodes in this `pool`.")
			f.BoolVar(&r.all, "all", false, "Renew the identities of all nodes.")
			r.over.Declare(f)
			return r.run
		},
	}
}

func (r *renewing) run(ctx context.Context, e *term.Env) error {
	ways := 0
	for _, asked := range []bool{e.Arg(0) != "", r.pool != "", r.all} {
		if asked {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("Either a node, -node-pool or -all is required")
	case e.Arg(0) != "" && r.over.IsSet():
		return errors.New("-over requires -node-pool or -all")
	case e.Arg(0) != "":
		return renewOne(ctx, e, e.Arg(0))
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	list := c.Nodes().List
	if r.pool != "" {
		list = func(q *api.QueryOptions) ([]*api.NodeListStub, *api.QueryMeta, error) {
			return c.NodePools().ListNodes(r.pool, q)
		}
	}
	nodes, _, err := list((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying nodes: %w", err)
	}
	return r.over.Run(ctx, e, c, nodes)
}

func renewOne(ctx context.Context, e *term.Env, prefix string) error {
	c, n, err := find(ctx, e, prefix)
	if err != nil {
		return err
	}
	if _, err := c.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: n.ID}, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("Error requesting node identity renewal: %w", err)
	}
	return nil
}
