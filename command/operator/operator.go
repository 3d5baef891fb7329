// Package operator holds the commands for operators of a cluster. Examples are server members,
// system gc, monitor, and "operator" with its commands for Raft, Autopilot, the scheduler, keys and
// snapshots. Commands returns all of them. They call an agent through package api and keep
// no state.
package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return append([]term.Command{membersCommand(), joinCommand(), forceLeaveCommand(), raftListCommand(), raftRemoveCommand(),
		raftTransferCommand(), gcCommand(), reconcileCommand(), metricsCommand(),
		schedulerGetCommand(), schedulerSetCommand(), agentInfoCommand(), checkCommand(), migrateCommand(), rebalanceCommand(), simulateCommand(),
		monitorCommand(), monitorExportCommand(), clientStateCommand()},
		slices.Concat(gossipCommands(), snapshotCommands(), autopilotCommands(), raftDiskCommands(), rootKeyCommands())...)
}

func membersCommand() term.Command {
	return term.Command{
		Name: "server members", Alias: []string{"server-members"}, Short: "List the servers",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Show the tags of each server.")
			detailed := f.Bool("detailed", false, "The same as -verbose.")
			var formats term.Formats
			formats.Declare(f)
			return func(_ context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				m, err := c.Agent().Members()
				switch {
				case err != nil:
					return fmt.Errorf("Error querying servers: %w", err)
				case formats.Wanted():
					return formats.Print(e, m.Members)
				}
				return members(e, c, m, *detail || term.Detail(*detailed))
			}
		},
	}
}

func members(e *term.Env, c *api.Client, m *api.ServerMembers, detail term.Detail) error {
	slices.SortFunc(m.Members, func(a, b *api.AgentMember) int { return strings.Compare(a.Name, b.Name) })
	head := "Name|Address|Port|Status|Leader|Raft Version|Build|Datacenter|Region"
	if detail {
		head += "|Tags"
	}
	rows := []string{head}
	leaders := map[string]string{}
	for _, s := range m.Members {
		region := s.Tags["region"]
		if _, ok := leaders[region]; !ok {
			leader, err := c.Status().RegionLeader(region)
			if err != nil {
				e.Warnf("Error determining leader of region %q: %v", region, err)
			}
			leaders[region] = leader
		}
		isLeader := leaders[region] != "" && leaders[region] == fmt.Sprintf("%s:%s", s.Addr, s.Tags["port"])
		cells := []any{s.Name, s.Addr, s.Port, s.Status, isLeader, s.Tags["raft_vsn"], s.Tags["build"], s.Tags["dc"], region}
		if detail {
			cells = append(cells, tags(s.Tags))
		}
		rows = append(rows, term.Row(cells...))
	}
	e.Println(term.Table(rows))
	return nil
}

func tags(of map[string]string) string {
	var out []string
	for k, v := range of {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func gcCommand() term.Command {
	return systemCommand("system gc", "Run garbage collection of jobs, evaluations, allocations, deployments and nodes",
		func(s *api.System) error {
			if err := s.GarbageCollect(); err != nil {
				return fmt.Errorf("Error running system garbage-collection: %w", err)
			}
			return nil
		})
}

func reconcileCommand() term.Command {
	return systemCommand("system reconcile summaries", "Compute the summaries of all jobs again",
		func(s *api.System) error {
			if err := s.ReconcileSummaries(); err != nil {
				return fmt.Errorf("Error running system summary reconciliation: %w", err)
			}
			return nil
		})
}

// systemCommand returns a command without flags that calls run.
func systemCommand(name, short string, do func(*api.System) error) term.Command {
	return term.Command{
		Name: name, Short: short,
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				return do(c.System())
			}
		},
	}
}

func metricsCommand() term.Command {
	return term.Command{
		Name: "operator metrics", Short: "Show the metrics of the agent",
		Setup: func(f *term.Flags) term.Run {
			format := f.String("format", "", "The format: prometheus, or empty for JSON.")
			f.Bool("pretty", false, "Print indented JSON.")
			f.Bool("json", true, "Print as JSON.")
			tmpl := f.String("t", "", "Print with a Go `template`.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				if *tmpl != "" {
					summary, _, err := c.Operator().MetricsSummary((&api.QueryOptions{}).WithContext(ctx))
					if err != nil {
						return fmt.Errorf("Error querying metrics: %w", err)
					}
					return term.NewFormats(false, *tmpl).Print(e, summary)
				}
				out, err := c.Operator().Metrics((&api.QueryOptions{Params: map[string]string{"format": *format, "pretty": "1"}}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error querying metrics: %w", err)
				}
				e.Println(strings.TrimRight(string(out), "\n"))
				return nil
			}
		},
	}
}

func agentInfoCommand() term.Command {
	return term.Shown(term.Command{Name: "agent-info", Short: "Show the internal state of an agent"},
		func(_ context.Context, c *api.Client) (*api.AgentSelf, error) {
			self, err := c.Agent().Self()
			if err != nil {
				return nil, fmt.Errorf("Error querying agent info: %w", err)
			}
			return self, nil
		},
		func(e *term.Env, self *api.AgentSelf) {
			for _, part := range slices.Sorted(keysOf(self.Stats)) {
				e.Println(part)
				for _, k := range slices.Sorted(keysOf(self.Stats[part])) {
					e.Printf("  %s = %s\n", k, self.Stats[part][k])
				}
			}
		})
}
