package node

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func introCreateCommand() term.Command {
	return term.Command{
		Name: "node intro create", MaxArgs: 0,
		Short: "Make a token with which a new node may join",
		Long: "Prints a token for 'nomad agent -client-intro-token' (or NOMAD_CLIENT_INTRO_TOKEN, or the file intro_token.jwt in the client's state directory). " +
			"A node needs it once, until it has an identity of its own.",
		Setup: func(f *term.Flags) term.Run {
			req := &api.ACLIdentityClientIntroductionTokenRequest{}
			var formats term.Formats
			formats.Declare(f)
			f.StringVar(&req.NodeName, "node-name", "", "The only `name` under which a node may show the token. Default: any.")
			f.StringVar(&req.NodePool, "node-pool", "", "The only `pool` that the node may join. Default: default.")
			f.IntVar(&req.Uses, "uses", 1, "How many nodes the token admits.")
			ttl := f.String("ttl", "", "How long the token is good. Default and maximum are the servers' (client_introduction).")
			return func(ctx context.Context, e *term.Env) error {
				if req.Uses < 1 {
					return fmt.Errorf("-uses %d: a token admits at least one node", req.Uses)
				}
				var err error
				if *ttl != "" {
					if req.TTL, err = time.ParseDuration(*ttl); err != nil || req.TTL <= 0 {
						return fmt.Errorf("-ttl %q is not a time such as 10m", *ttl)
					}
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				resp, _, err := c.ACLIdentity().CreateClientIntroductionToken(req, (&api.WriteOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error creating client introduction token: %w", err)
				}
				if formats.Wanted() {
					return formats.Print(e, resp)
				}
				e.Println(resp.JWT)
				return nil
			}
		},
	}
}
