package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// checkCommand is the command of monitoring systems: its exit codes are those of their plugins.
func checkCommand() term.Command {
	return term.Command{
		Name: "check", Short: "Report the health of an agent by the exit code", Hidden: true,
		Long: "Exits with 0 if the agent is healthy, and with 1 if a server has too few peers. Exits with 2 if a client has too few " +
			"servers, or if the agent reports a failure or does not answer.\n\n    nomad check -min-peers=2",
		Setup: func(f *term.Flags) term.Run {
			peers := f.Int("min-peers", 0, "The minimum number of Raft peers of a server.")
			servers := f.Int("min-servers", 1, "The minimum number of servers that a client uses.")
			return func(_ context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return critical(err)
				}
				self, err := c.Agent().Self()
				if err != nil {
					return critical(fmt.Errorf("Unable to query agent info: %w", err))
				}
				health, err := c.Agent().Health()
				if err != nil {
					return critical(fmt.Errorf("Unable to query agent health: %w", err))
				}
				return atLeast{*peers, *servers}.check(e, self, health)
			}
		},
	}
}

func critical(err error) error { return &term.ExitError{Code: 2, Err: err} }

// atLeast has the minimum numbers of peers and servers.
type atLeast struct{ peers, servers int }

func (least atLeast) check(e *term.Env, self *api.AgentSelf, health *api.AgentHealthResponse) error {
	for role, h := range map[string]*api.AgentHealth{"client": health.Client, "server": health.Server} {
		if h != nil && !h.Ok {
			return critical(fmt.Errorf("Unhealthy %s: %s", role, h.Message))
		}
	}
	if client := self.Stats["client"]; client != nil {
		known := 0
		for _, addr := range strings.Split(client["known_servers"], ",") {
			if strings.TrimSpace(addr) != "" {
				known++
			}
		}
		if known < least.servers {
			return critical(fmt.Errorf("Known servers: %d, at least %d are required", known, least.servers))
		}
	}
	if raft := self.Stats["raft"]; raft != nil {
		n, err := strconv.Atoi(raft["num_peers"])
		switch {
		case err != nil:
			return critical(fmt.Errorf("Unable to get the number of peers: %q", raft["num_peers"]))
		case n < least.peers:
			return &term.ExitError{Code: 1, Err: fmt.Errorf("Raft peers: %d, at least %d are required", n, least.peers)}
		}
	}
	e.Println("OK")
	return nil
}
