package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func autopilotCommands() []term.Command {
	return []term.Command{autopilotGetCommand(), autopilotSetCommand(), autopilotHealthCommand()}
}

func autopilotGetCommand() term.Command {
	return term.Shown(term.Command{Name: "operator autopilot get-config", Short: "Show the Autopilot configuration"},
		func(ctx context.Context, c *api.Client) (*api.AutopilotConfiguration, error) {
			conf, _, err := c.Operator().AutopilotGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error querying Autopilot configuration: %w", err)
			}
			return conf, nil
		},
		func(e *term.Env, conf *api.AutopilotConfiguration) {
			e.Println(term.Pairs([]string{
				term.Row("CleanupDeadServers", conf.CleanupDeadServers),
				term.Row("LastContactThreshold", conf.LastContactThreshold),
				term.Row("MaxTrailingLogs", conf.MaxTrailingLogs),
				term.Row("MinQuorum", conf.MinQuorum),
				term.Row("ServerStabilizationTime", conf.ServerStabilizationTime),
				term.Row("EnableRedundancyZones", conf.EnableRedundancyZones),
				term.Row("DisableUpgradeMigration", conf.DisableUpgradeMigration),
				term.Row("EnableCustomUpgrades", conf.EnableCustomUpgrades),
				term.Row("Modify Index", conf.ModifyIndex),
			}))
		})
}

func autopilotSetCommand() term.Command {
	return term.Command{
		Name: "operator autopilot set-config", Short: "Update the Autopilot configuration",
		Long: `Settings without a flag are unchanged. The update fails if the configuration has changed
since the command read it.`,
		Setup: func(f *term.Flags) term.Run {
			var edits []func(*api.AutopilotConfiguration)
			take := func(parse func(string) (func(*api.AutopilotConfiguration), error)) func(string) error {
				return func(text string) error {
					edit, err := parse(text)
					edits = append(edits, edit)
					return err
				}
			}
			flag := func(name, usage string, parse func(string) (func(*api.AutopilotConfiguration), error)) {
				f.Func(name, usage, take(parse))
			}
			toggle := func(name, usage string, field func(*api.AutopilotConfiguration) *bool) {
				f.BoolFunc(name, usage, take(boolean(field)))
			}
			toggle("cleanup-dead-servers", "Remove dead servers from the Raft configuration.",
				func(c *api.AutopilotConfiguration) *bool { return &c.CleanupDeadServers })
			flag("max-trailing-logs", "The number of log `entries` that a healthy server may lag behind the leader.",
				number(func(c *api.AutopilotConfiguration, n uint64) { c.MaxTrailingLogs = n }))
			flag("min-quorum", "The minimum number of `voters`: no dead server is removed below it.",
				number(func(c *api.AutopilotConfiguration, n uint64) { c.MinQuorum = uint(n) }))
			flag("last-contact-threshold", "The maximum `duration` since the last contact of a healthy server with the leader.",
				duration(func(c *api.AutopilotConfiguration) *time.Duration { return &c.LastContactThreshold }))
			flag("server-stabilization-time", "The `duration` for which a new server must be healthy before it becomes a voter.",
				duration(func(c *api.AutopilotConfiguration) *time.Duration { return &c.ServerStabilizationTime }))
			toggle("enable-redundancy-zones", "Nomad Enterprise only: rejected.",
				func(c *api.AutopilotConfiguration) *bool { return &c.EnableRedundancyZones })
			toggle("disable-upgrade-migration", "Nomad Enterprise only: rejected.",
				func(c *api.AutopilotConfiguration) *bool { return &c.DisableUpgradeMigration })
			toggle("enable-custom-upgrades", "Nomad Enterprise only: rejected.",
				func(c *api.AutopilotConfiguration) *bool { return &c.EnableCustomUpgrades })
			return func(ctx context.Context, e *term.Env) error { return setAutopilot(ctx, e, edits) }
		},
	}
}

// setAutopilot reads the configuration, edits it, and writes it by check-and-set.
func setAutopilot(ctx context.Context, e *term.Env, edits []func(*api.AutopilotConfiguration)) error {
	if len(edits) == 0 {
		return fmt.Errorf("set at least one flag: see nomad operator autopilot set-config -help")
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	conf, _, err := c.Operator().AutopilotGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying Autopilot configuration: %w", err)
	}
	for _, edit := range edits {
		edit(conf)
	}
	done, _, err := c.Operator().AutopilotCASConfiguration(conf, (&api.WriteOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error setting Autopilot configuration: %w", err)
	case !done:
		return fmt.Errorf("Autopilot configuration could not be atomically updated, please try again")
	}
	e.Println("Configuration updated!")
	return nil
}

// boolean returns a flag value that edits a boolean setting.
func boolean(field func(*api.AutopilotConfiguration) *bool) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := strconv.ParseBool(text)
		return func(c *api.AutopilotConfiguration) { *field(c) = v }, err
	}
}

// number returns a flag value that edits a setting of type uint.
func number(set func(*api.AutopilotConfiguration, uint64)) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := strconv.ParseUint(text, 10, 32)
		return func(c *api.AutopilotConfiguration) { set(c, v) }, err
	}
}

// duration returns a flag value that edits a setting of type duration.
func duration(field func(*api.AutopilotConfiguration) *time.Duration) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := time.ParseDuration(text)
		return func(c *api.AutopilotConfiguration) { *field(c) = v }, err
	}
}

// unhealthyExit is the exit code of operator autopilot health if a server is unhealthy.
const unhealthyExit = 2

func autopilotHealthCommand() term.Command {
	return term.Command{
		Name: "operator autopilot health", Short: "Show the health of the servers",
		Long: `Exit codes: 0 if all servers are healthy, 2 if one is not, 1 after an error.`,
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Print as JSON.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				h, _, err := c.Operator().AutopilotServerHealth((&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error querying Autopilot health: %w", err)
				}
				if *asJSON {
					err = e.JSON(h)
				} else {
					showHealth(e, h)
				}
				if err == nil && !h.Healthy {
					return term.Exit(unhealthyExit)
				}
				return err
			}
		},
	}
}

func showHealth(e *term.Env, h *api.OperatorHealthReply) {
	e.Println(term.Pairs([]string{
		term.Row("Healthy", h.Healthy),
		term.Row("FailureTolerance", h.FailureTolerance),
		term.Row("Leader", h.Leader),
		term.Row("Voters", strings.Join(h.Voters, ", ")),
	}))
	for _, warning := range h.Warnings {
		e.Println("Warning: " + warning)
	}
	e.Println()
	rows := []string{"ID|Name|Address|SerfStatus|Version|Leader|Voter|Healthy|LastContact|LastTerm|LastIndex|StableSince"}
	for _, s := range h.Servers {
		contact := s.LastContact.String()
		if s.LastContact < 0 {
			contact = "never"
		}
		rows = append(rows, term.Row(s.ID, s.Name, s.Address, s.SerfStatus, s.Version, s.Leader, s.Voter, s.Healthy, contact,
			s.LastTerm, s.LastIndex, s.StableSince.Format(time.RFC3339)))
	}
	e.Println(term.Table(rows))
	if len(h.Unserved) > 0 {
		e.Println("\n" + e.Bold("Unserved features") + "\n" + strings.Join(h.Unserved, "\n"))
	}
}
