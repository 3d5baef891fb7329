package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/renewal"
	"github.com/open-nomad/open-nomad/command/term"
)

// renewing says whose identities are renewed.
type renewing struct {
	pool string
	all  bool
	over renewal.Flags
}

func identityRenewCommand() term.Command {
	return term.Command{
		Name: "node identity renew", Args: "[node]", MaxArgs: 1,
		Short: "Have nodes ask for a new identity at once",
		Long: "Either a node, -node-pool or -all is needed. Of several nodes each is asked in its turn, spread over the time of -over; those that could not be reached are listed, and the command exits with 1. " +
			"A node that cannot reach a server goes on asking, also after a restart of its agent.",
		Setup: func(f *term.Flags) term.Run {
			r := &renewing{}
			f.StringVar(&r.pool, "node-pool", "", "All nodes of a `pool`.")
			f.BoolVar(&r.all, "all", false, "All nodes.")
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
		return errors.New("Either a node, -node-pool or -all is needed")
	case e.Arg(0) != "" && r.over.Given():
		return errors.New("-over goes with -node-pool and -all")
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
