package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/command/term"
)

// configCommand shows or replaces the servers of a client agent.
func configCommand() term.Command {
	return term.Command{
		Name: "node config", Alias: []string{"client-config"}, Args: "[<server>...]", MaxArgs: -1,
		Short: "Show or replace the servers that a client agent uses",
		Long: `With -servers the known servers are listed. With -update-servers the arguments ("host" or "host:port")
take their place; the client learns of the others at its next heartbeat.`,
		Setup: func(f *term.Flags) term.Run {
			show := f.Bool("servers", false, "List the servers.")
			update := f.Bool("update-servers", false, "Replace the servers by the arguments.")
			return func(_ context.Context, e *term.Env) error {
				switch {
				case *show == *update:
					return errors.New("either -servers or -update-servers is needed")
				case *update && len(e.Args) == 0:
					return errors.New("-update-servers takes the addresses of servers")
				case *show && len(e.Args) > 0:
					return errors.New("-servers takes no arguments")
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if *update {
					if err := c.Agent().SetServers(e.Args); err != nil {
						return fmt.Errorf("Error updating server list: %w", err)
					}
					return nil
				}
				servers, err := c.Agent().Servers()
				if err != nil {
					return fmt.Errorf("Error querying server list: %w", err)
				}
				for _, addr := range servers {
					e.Println(addr)
				}
				return nil
			}
		},
	}
}
