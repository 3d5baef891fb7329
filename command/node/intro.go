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
		Short: "Create an introduction token for new nodes",
		Long: "Prints a token for 'nomad agent -client-intro-token' (or NOMAD_CLIENT_INTRO_TOKEN, or the file " +
			"intro_token.jwt in the client's state directory). " +
			"A node needs the token only for its first registration, until it has its own identity.",
		Setup: func(f *term.Flags) term.Run {
			req := &api.ACLIdentityClientIntroductionTokenRequest{}
			var formats term.Formats
			formats.Declare(f)
			f.StringVar(&req.NodeName, "node-name", "", "The node `name` that the token is valid for. Default: any name.")
			f.StringVar(&req.NodePool, "node-pool", "", "The node `pool` that the token is valid for. Default: default.")
			f.IntVar(&req.Uses, "uses", 1, "The number of nodes that can register with the token.")
			ttl := f.String("ttl", "", "The TTL of the token. The client_introduction block of the servers sets the default and the maximum.")
			return func(ctx context.Context, e *term.Env) error {
				if req.Uses < 1 {
					return fmt.Errorf("invalid value %d for -uses: want at least 1", req.Uses)
				}
				var err error
				if *ttl != "" {
					if req.TTL, err = time.ParseDuration(*ttl); err != nil || req.TTL <= 0 {
						return fmt.Errorf("invalid value %q for -ttl: want a duration such as 10m", *ttl)
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
