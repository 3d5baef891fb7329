// Package bundle is the command operator debug: it collects facts about a running cluster in one
// archive.
//
//	nomad-debug-<time>Z/
//	  index.json, index.html              what was captured, and the errors
//	  cluster/                            once: the agent, members, namespaces, regions, events
//	  nomad/0000/, nomad/0001/, ...       each interval: jobs, allocations, nodes, metrics, ...
//	  server/<name>/, client/<node ID>/   host data, log and profiles of each agent
//
// Everything is read over the HTTP API with the rights of the caller, and from the agent of Consul and the Vault that the
// caller names (consul.go, vault.go). Secrets are removed before a file is written (scrub.go). The
// sizes of a file and of the bundle, the number of agents, and the duration are limited. An interrupt ends the capture, and the archive contains what was captured
// until then.
//
// One goroutine per log and event stream runs until the capture ends. Profiles of maxParallel agents
// are read at the same time.
package bundle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
)

// Limits of a capture.
const (
	maxDuration = 24 * time.Hour
	minInterval = time.Second
	maxAgents   = 1000
	maxParallel = 8
	maxTries    = 10 // to read a profile of an agent that already takes one
)

// settings are the flags of the command.
type settings struct {
	duration, interval, pprofEvery, pprofLong time.Duration

	wantServers, wantNodes, class string
	maxNodes                      int
	topics                        string
	index                         int64
	level                         string
	location, stale               bool
	exportFile                    bool
	lookback                      time.Duration
	output                        string
	detail                        term.Detail
	flags                         map[string]string // set flags, without secrets
	consul                        consulFlags
	vault                         vaultFlags
}

// Commands lists the command of this package.
func Commands() []term.Command {
	return []term.Command{{
		Name: "operator debug", Alias: []string{"debug"}, Short: "Collect facts about a cluster in an archive",
		Long: `Follows the logs of servers and clients, reads profiles, and reads the state of the cluster at each interval. The
archive nomad-debug-<time>Z.tar.gz is written to the current directory. An interrupt (Ctrl-C) ends the capture early.

    nomad operator debug
    nomad operator debug -duration=30s -interval=10s -server-id=leader -node-id=all
    nomad operator debug -duration=2m -event-topic=Node,Evaluation -output=/var/tmp

With -consul-http-addr or CONSUL_HTTP_ADDR, also reads the agent of Consul there: its version, members, leader and metrics, and
the part of its configuration that has no secrets. With -vault-address or VAULT_ADDR, also reads the health of Vault.

Tokens, keys, environments of tasks and agents, templates and driver configurations are removed. Logs and names of jobs, nodes and
variables remain: look at a bundle before you share it.

This requires agent:read, node:read and read-job in all namespaces; operator:read for the state of the servers; agent:write for
profiles. Without access control, profiles require enable_debug on the agents. What may not be read is left out. If a capture
fails for another reason, the exit code is 2.`,
		Setup: func(f *term.Flags) term.Run {
			s := &settings{}
			raw := s.declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if err := s.parse(raw); err != nil {
					return err
				}
				s.flags = setFlags(f.FlagSet)
				return run(ctx, e, s)
			}
		},
	}}
}

// durations are the flags that are durations as text.
type durations struct{ duration, interval, pprofEvery, pprofLong, lookback string }

func (s *settings) declare(f *term.Flags) *durations {
	d := &durations{}
	f.StringVar(&d.duration, "duration", "5m", "How long to capture.")
	f.StringVar(&d.interval, "interval", "30s", "The time between two captures of the state. 0 captures once.")
	f.StringVar(&d.pprofLong, "pprof-duration", "1s", "The length of each CPU profile and trace. 0 reads no profiles.")
	f.StringVar(&d.pprofEvery, "pprof-interval", "30s", "The time between two reads of the profiles. 0 reads them once.")
	f.StringVar(&d.lookback, "log-lookback", "", "Also export the journal of the unit nomad, beginning this `duration` ago.")
	f.BoolVar(&s.exportFile, "log-file-export", false, "Also export the log_file of each agent.")
	f.StringVar(&s.level, "log-level", "TRACE", "The lowest `level` of the followed logs.")
	f.BoolVar(&s.location, "log-include-location", true, "Include positions in the source code in the logs.")
	f.StringVar(&s.wantServers, "server-id", "all", "The `servers`: names or IDs, leader, or all. Separated by commas.")
	f.StringVar(&s.wantNodes, "node-id", "all", "The `nodes`: prefixes of IDs, or all. Separated by commas.")
	f.StringVar(&s.class, "node-class", "", "Only nodes of this `class`.")
	f.IntVar(&s.maxNodes, "max-nodes", 10, "The maximum number of nodes. 0 means no limit.")
	f.StringVar(&s.topics, "event-topic", "none", "Follow events of these `topics`, such as Node or Job:web. Separated by commas.")
	f.Int64Var(&s.index, "event-index", 0, "Begin the events at this `index`.")
	f.BoolVar(&s.stale, "stale", false, "Allow any server to answer. Use this without a leader.")
	f.StringVar(&s.output, "output", "", "Write a directory below this `directory` instead of an archive.")
	f.DetailVar(&s.detail, "Print each captured file.")
	s.consul.declare(f)
	s.vault.declare(f)
	return d
}

// parse checks the flags.
func (s *settings) parse(d *durations) error {
	for _, p := range []struct {
		flag, text string
		to         *time.Duration
	}{{"duration", d.duration, &s.duration}, {"interval", d.interval, &s.interval}, {"pprof-duration", d.pprofLong, &s.pprofLong},
		{"pprof-interval", d.pprofEvery, &s.pprofEvery}, {"log-lookback", d.lookback, &s.lookback}} {
		if p.text == "" {
			continue
		}
		v, err := time.ParseDuration(p.text)
		if err != nil || v < 0 {
			return fmt.Errorf("Error parsing -%s: %q is not a duration such as 30s", p.flag, p.text)
		}
		*p.to = v
	}
	switch {
	case s.duration > maxDuration:
		return fmt.Errorf("-duration is longer than %v", maxDuration)
	case s.interval != 0 && s.interval < minInterval, s.pprofEvery != 0 && s.pprofEvery < minInterval:
		return fmt.Errorf("-interval and -pprof-interval must be 0 or at least %v", minInterval)
	case s.interval > s.duration:
		return errors.New("-interval is longer than -duration: use 0 to capture once")
	case s.pprofLong > s.duration && s.pprofLong > time.Second:
		return errors.New("-pprof-duration is longer than -duration")
	case s.exportFile && s.lookback != 0:
		return errors.New("-log-file-export and -log-lookback exclude each other")
	case s.maxNodes < 0:
		return errors.New("-max-nodes is negative")
	}
	return nil
}

// secretFlags end the names of flags that can have a secret. Addresses can have a user and a password.
var secretFlags = []string{"token", "address", "-addr", "-auth", "-key"}

// setFlags returns the flags that the user set, without the values of secrets.
func setFlags(f *flag.FlagSet) map[string]string {
	out := map[string]string{}
	f.Visit(func(fl *flag.Flag) {
		out[fl.Name] = fl.Value.String()
		if slices.ContainsFunc(secretFlags, func(end string) bool { return strings.HasSuffix(fl.Name, end) }) {
			out[fl.Name] = redacted
		}
	})
	return out
}

// run captures a bundle and prints where it is.
func run(ctx context.Context, e *term.Env, s *settings) error {
	cfg := e.Config(noChange)
	c, err := e.Client()
	if err != nil {
		return err
	}
	agent, err := s.consul.agent()
	if err != nil {
		return err
	}
	connection, err := s.vault.connection()
	if err != nil {
		return err
	}
	t, err := find(ctx, c, s)
	if err != nil {
		return err
	}
	name := "nomad-debug-" + time.Now().UTC().Format("2006-01-02-150405") + "Z"
	dir, err := newDir(s.output, name, newScrubber(cfg, slices.Concat(s.consul.secrets(), s.vault.secrets())...))
	if err != nil {
		return err
	}
	defer dir.close()
	e.Println(term.Pairs([]string{term.Row("Servers", strings.Join(t.servers, ", ")),
		term.Row("Clients", strings.Join(t.shortNodes(s.detail), ", ")),
		term.Row("Interval", s.interval), term.Row("Duration", s.duration)}))
	p := &capture{settings: s, target: t, client: c, consulAgent: agent, vault: connection, dir: dir, env: e, denied: map[string]bool{}}
	p.run(ctx)
	if ctx.Err() != nil {
		e.Warnf("Interrupted: the bundle contains what was captured until now")
	}
	where, err := dir.finish(p.summary(ctx.Err() != nil))
	if err != nil {
		return fmt.Errorf("Error writing the bundle: %w", err)
	}
	if s.output == "" {
		e.Printf("Created debug archive: %s\n", where)
	} else {
		e.Printf("Created debug directory: %s\n", filepath.Clean(where))
	}
	if n := len(p.failures()); n > 0 {
		return &term.ExitError{Code: 2, Err: fmt.Errorf("%d captures failed: see index.json", n)}
	}
	return nil
}
