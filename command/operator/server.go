package operator

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func joinCommand() term.Command {
	return term.Command{
		Name: "server join", Alias: []string{"server-join"}, Args: "<addr> [<addr>...]", MinArgs: 1, MaxArgs: -1,
		Short: "Join the server to other servers",
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				n, err := c.Agent().Join(e.Args...)
				if err != nil {
					return fmt.Errorf("Error joining: %w", err)
				}
				e.Printf("Joined %d servers successfully\n", n)
				return nil
			}
		},
	}
}

func forceLeaveCommand() term.Command {
	return term.Command{
		Name: "server force-leave", Alias: []string{"server-force-leave"}, Args: "<node>", MinArgs: 1, MaxArgs: 1,
		Short: "Force a failed server into the left state",
		Setup: func(f *term.Flags) term.Run {
			prune := f.Bool("prune", false, "Remove the server from the list of members.")
			return func(_ context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				if err := c.Agent().ForceLeaveWithOptions(e.Arg(0), api.ForceLeaveOpts{Prune: *prune}); err != nil {
					return fmt.Errorf("Error force-leaving server %s: %w", e.Arg(0), err)
				}
				return nil
			}
		},
	}
}

func raftListCommand() term.Command {
	return term.Command{
		Name: "operator raft list-peers", Short: "List the servers in the Raft configuration",
		Setup: func(f *term.Flags) term.Run {
			stale := f.Bool("stale", false, "Allow any server to answer, not only the leader.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				conf, err := c.Operator().RaftGetConfiguration((&api.QueryOptions{AllowStale: *stale}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Failed to retrieve raft configuration: %w", err)
				}
				rows := []string{"Node|ID|Address|State|Voter|RaftProtocol"}
				for _, s := range conf.Servers {
					state := "follower"
					if s.Leader {
						state = "leader"
					}
					rows = append(rows, term.Row(s.Node, s.ID, s.Address, state, s.Voter, s.RaftProtocol))
				}
				e.Println(term.Table(rows))
				return nil
			}
		},
	}
}

func raftRemoveCommand() term.Command {
	return term.Command{
		Name: "operator raft remove-peer", Short: "Remove a server from the Raft configuration",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("peer-id", "", "The `ID` of the server in list-peers.")
			return func(ctx context.Context, e *term.Env) error {
				if *id == "" {
					return fmt.Errorf("-peer-id is required")
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if err := c.Operator().RaftRemovePeerByID(*id, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error removing peer: %w", err)
				}
				e.Printf("Removed peer with id %q\n", *id)
				return nil
			}
		},
	}
}

func raftTransferCommand() term.Command {
	return term.Command{
		Name: "operator raft transfer-leadership", Short: "Transfer the leadership to another server",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("peer-id", "", "The `ID` of the new leader.")
			addr := f.String("peer-address", "", "The `address` of the new leader, instead of its ID.")
			return func(ctx context.Context, e *term.Env) error {
				if (*id == "") == (*addr == "") {
					return fmt.Errorf("either -peer-id or -peer-address is required")
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				opts := (&api.WriteOptions{}).WithContext(ctx)
				if *id != "" {
					err = c.Operator().RaftTransferLeadershipByID(*id, opts)
				} else {
					err = c.Operator().RaftTransferLeadershipByAddress(*addr, opts)
				}
				if err != nil {
					return fmt.Errorf("Error transferring leadership to peer: %w", err)
				}
				e.Printf("Transferred leadership to %q\n", *id+*addr)
				return nil
			}
		},
	}
}
