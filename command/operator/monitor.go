package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// target holds the flags that select an agent.
type target struct{ node, server string }

func (t *target) declare(f *term.Flags) {
	f.StringVar(&t.node, "node-id", "", "Use the agent of this `node`. Default: the called agent.")
	f.StringVar(&t.server, "server-id", "", "Use the agent of this `server`: its name, its ID or leader.")
}

// find returns the client and sets the full ID of the node.
func (t *target) find(ctx context.Context, e *term.Env) (*api.Client, error) {
	c, err := e.Client()
	switch {
	case err != nil:
		return nil, err
	case t.node != "" && t.server != "":
		return nil, errors.New("Cannot target node and server simultaneously")
	case t.node == "":
		return c, nil
	}
	nodes, _, err := c.Nodes().List((&api.QueryOptions{Prefix: term.UUIDPrefix(t.node)}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying node info: %w", err)
	}
	var found []*api.NodeListStub
	for _, n := range nodes {
		if strings.HasPrefix(n.ID, t.node) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("The prefix %q of -node-id must match one node: it matches %d", t.node, len(found))
	}
	t.node = found[0].ID
	return c, nil
}

func monitorCommand() term.Command {
	return term.Command{
		Name: "monitor", Short: "Follow the log of an agent",
		Long: "Prints what the agent logs from now on, until it is interrupted. The level is independent of the agent's own log level. " +
			"Lines are dropped if they are not read fast enough; a line with their number follows. This needs agent:read.\n\n" +
			"    nomad monitor -log-level=debug -server-id=leader",
		Setup: func(f *term.Flags) term.Run {
			var t target
			t.declare(f)
			level := f.String("log-level", "info", "The lowest `level`: trace, debug, info, warn or error.")
			asJSON := f.Bool("json", false, "Print each line as a JSON object.")
			location := f.Bool("log-include-location", false, "Include the position in the source code.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := t.find(ctx, e)
				if err != nil {
					return err
				}
				lines, err := c.Agent().FollowLog(api.MonitorOptions{NodeID: t.node, ServerID: t.server, LogLevel: *level, JSON: *asJSON,
					Location: *location},
					(&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error starting monitor: %w", err)
				}
				_, err = printLog(ctx, e, lines)
				return err
			}
		},
	}
}

func monitorExportCommand() term.Command {
	return term.Command{
		Name: "monitor export", Short: "Print the stored log of an agent",
		Long: "Prints the agent's log file with -on-disk, or the journal of a systemd unit with -service-name. " +
			"Without any line the exit code is 1. " +
			"This needs agent:read.\n\n    nomad monitor export -on-disk -node-id=f7a9\n    nomad monitor export -service-name=nomad -logs-since=2h",
		Setup: func(f *term.Flags) term.Run {
			var t target
			t.declare(f)
			o := api.MonitorExportOptions{}
			f.BoolVar(&o.OnDisk, "on-disk", false, "Print the log_file of the agent.")
			f.StringVar(&o.ServiceName, "service-name", "", "Print the journal of this systemd `unit`. Its name contains nomad.")
			f.BoolVar(&o.Follow, "follow", false, "Follow the journal.")
			since := f.Duration("logs-since", 72*time.Hour, "The age of the oldest lines of a journal.")
			return func(ctx context.Context, e *term.Env) error {
				switch {
				case o.OnDisk == (o.ServiceName != ""):
					return errors.New("Either -service-name or -on-disk must be set, and not both")
				case o.OnDisk && o.Follow:
					return errors.New("Cannot follow log file: -follow requires -service-name")
				}
				c, err := t.find(ctx, e)
				if err != nil {
					return err
				}
				o.NodeID, o.ServerID, o.LogsSince = t.node, t.server, since.String()
				lines, err := c.Agent().ReadLog(o, (&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error starting monitor: %w", err)
				}
				n, err := printLog(ctx, e, lines)
				if err == nil && n == 0 && ctx.Err() == nil {
					return errors.New("The agent has no matching log lines")
				}
				return err
			}
		},
	}
}

// printLog prints lines until their end or the end of ctx.
func printLog(ctx context.Context, e *term.Env, lines io.ReadCloser) (int64, error) {
	defer lines.Close()
	n, err := io.Copy(e.Out, lines)
	if err != nil && ctx.Err() == nil {
		return n, fmt.Errorf("Error reading the log: %w", err)
	}
	return n, nil
}
