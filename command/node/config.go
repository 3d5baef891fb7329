package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/command/term"
)

func configCommand() term.Command {
	return term.Command{
		Name: "node config", Alias: []string{"client-config"}, Args: "[<server>...]", MaxArgs: -1,
		Short: "Show or replace the servers that a client agent uses",
		Long: `-servers lists the known servers. -update-servers replaces them with the arguments ("host" or "host:port").
The client gets the addresses of the other servers with its next heartbeat.`,
		Setup: func(f *term.Flags) term.Run {
			show := f.Bool("servers", false, "List the servers.")
			update := f.Bool("update-servers", false, "Replace the servers with the arguments.")
			return func(_ context.Context, e *term.Env) error {
				switch {
				case *show == *update:
					return errors.New("either -servers or -update-servers is required")
				case *update && len(e.Args) == 0:
					return errors.New("-update-servers requires the addresses of servers as arguments")
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
