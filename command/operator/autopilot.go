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
	return term.Shown(term.Command{Name: "operator autopilot get-config", Short: "Show how the leader keeps the servers"},
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
		Name: "operator autopilot set-config", Short: "Change how the leader keeps the servers",
		Long: `Only what is named changes. It is refused when somebody else changed the configuration
meanwhile.`,
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
			toggle("cleanup-dead-servers", "Take servers that died out of the cluster.", func(c *api.AutopilotConfiguration) *bool { return &c.CleanupDeadServers })
			flag("max-trailing-logs", "How many `entries` of the log a healthy server may be behind.", number(func(c *api.AutopilotConfiguration, n uint64) { c.MaxTrailingLogs = n }))
			flag("min-quorum", "Remove no server that died when fewer `voters` than this would remain.", number(func(c *api.AutopilotConfiguration, n uint64) { c.MinQuorum = uint(n) }))
			flag("last-contact-threshold", "How `long` ago a healthy server may have heard from the leader.", duration(func(c *api.AutopilotConfiguration) *time.Duration { return &c.LastContactThreshold }))
			flag("server-stabilization-time", "How `long` a new server must be healthy before it votes.", duration(func(c *api.AutopilotConfiguration) *time.Duration { return &c.ServerStabilizationTime }))
			toggle("enable-redundancy-zones", "Of Nomad Enterprise, refused.", func(c *api.AutopilotConfiguration) *bool { return &c.EnableRedundancyZones })
			toggle("disable-upgrade-migration", "Of Nomad Enterprise, refused.", func(c *api.AutopilotConfiguration) *bool { return &c.DisableUpgradeMigration })
			toggle("enable-custom-upgrades", "Of Nomad Enterprise, refused.", func(c *api.AutopilotConfiguration) *bool { return &c.EnableCustomUpgrades })
			return func(ctx context.Context, e *term.Env) error { return setAutopilot(ctx, e, edits) }
		},
	}
}

// setAutopilot reads the configuration, edits it and writes it if it is unchanged
// meanwhile.
func setAutopilot(ctx context.Context, e *term.Env, edits []func(*api.AutopilotConfiguration)) error {
	if len(edits) == 0 {
		return fmt.Errorf("name at least one setting to change: see nomad operator autopilot set-config -help")
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

// boolean makes the value of a flag an edit of the setting that field finds.
func boolean(field func(*api.AutopilotConfiguration) *bool) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := strconv.ParseBool(text)
		return func(c *api.AutopilotConfiguration) { *field(c) = v }, err
	}
}

// number is boolean for numbers from 0.
func number(set func(*api.AutopilotConfiguration, uint64)) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := strconv.ParseUint(text, 10, 32)
		return func(c *api.AutopilotConfiguration) { set(c, v) }, err
	}
}

// duration is boolean for durations.
func duration(field func(*api.AutopilotConfiguration) *time.Duration) func(string) (func(*api.AutopilotConfiguration), error) {
	return func(text string) (func(*api.AutopilotConfiguration), error) {
		v, err := time.ParseDuration(text)
		return func(c *api.AutopilotConfiguration) { *field(c) = v }, err
	}
}

// unhealthyExit is the exit code of operator autopilot health when servers are not
// healthy.
const unhealthyExit = 2

func autopilotHealthCommand() term.Command {
	return term.Command{
		Name: "operator autopilot health", Short: "Show how the servers are",
		Long: `The exit code is 0 when all servers are healthy, 2 when one is not, and 1 when that
could not be found out.`,
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
