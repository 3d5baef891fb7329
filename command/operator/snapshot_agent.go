package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/backup"
	"github.com/open-nomad/open-nomad/command/term"
)

func snapshotAgentCommand() term.Command {
	return term.Command{
		Name: "operator snapshot agent", Args: "[config.hcl|config.json]", MaxArgs: 1, Short: "Save the state of the servers periodically",
		Long: `Runs until SIGTERM or SIGINT. Each snapshot is verified before the oldest ones beyond
-retain are removed. After a failure the agent retries with exponential backoff.

Flags override the file, and the file overrides the environment.`,
		Setup: func(f *term.Flags) term.Run {
			def := backup.Defaults()
			given := def
			f.DurationVar(&given.Interval, "interval", def.Interval, "The `duration` between two snapshots.")
			f.DurationVar(&given.Timeout, "timeout", def.Timeout, "The maximum `duration` of a snapshot.")
			f.IntVar(&given.Retain, "retain", def.Retain, "The number of `snapshots` to keep.")
			f.StringVar(&given.Dir, "local-path", def.Dir, "The `directory` of the snapshots.")
			f.StringVar(&given.Prefix, "prefix", def.Prefix, "The `prefix` of the file names.")
			f.BoolVar(&given.Stale, "stale", def.Stale, "Allow any server to answer, even without a leader. The state may be stale.")
			f.StringVar(&given.LogLevel, "log-level", def.LogLevel, "The log level: debug, info, warn or error.")
			f.BoolVar(&given.LogJSON, "log-json", def.LogJSON, "Log as JSON.")
			once := f.Bool("once", false, "Take one snapshot and exit: with 0 if it was saved, else 1.")
			return func(ctx context.Context, e *term.Env) error {
				settings := def
				if path := e.Arg(0); path != "" {
					if err := settings.ReadFile(path); err != nil {
						return err
					}
				}
				f.Visit(func(fl *flag.Flag) { override(&settings, &given, fl.Name) })
				return snapshotAgent(ctx, e, settings, *once)
			}
		},
	}
}

// override copies the values of the flags that are set.
func override(to, from *backup.Settings, name string) {
	switch name {
	case "interval":
		to.Interval = from.Interval
	case "timeout":
		to.Timeout = from.Timeout
	case "retain":
		to.Retain = from.Retain
	case "local-path":
		to.Dir = from.Dir
	case "prefix":
		to.Prefix = from.Prefix
	case "stale":
		to.Stale = from.Stale
	case "log-level":
		to.LogLevel = from.LogLevel
	case "log-json":
		to.LogJSON = from.LogJSON
	}
}

// snapshotAgent takes snapshots until ctx ends, or one snapshot.
func snapshotAgent(ctx context.Context, e *term.Env, s backup.Settings, once bool) (err error) {
	c, err := e.ClientOf(s.Server.Apply)
	if err != nil {
		return err
	}
	log, err := s.Logger(os.Stderr)
	if err != nil {
		return err
	}
	fetch := func(ctx context.Context) (io.ReadCloser, error) {
		return c.Operator().Snapshot((&api.QueryOptions{AllowStale: s.Stale}).WithContext(ctx))
	}
	a, err := backup.New(backup.Config{Fetch: fetch, Dir: s.Dir, Prefix: s.Prefix, Interval: s.Interval, Timeout: s.Timeout, Retain: s.Retain,
		Log: log})
	if err != nil {
		return fmt.Errorf("Error starting the snapshot agent: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if once {
		if err := a.Once(ctx); err != nil {
			return fmt.Errorf("Error saving snapshot: %w", err)
		}
		return nil
	}
	if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("snapshot agent stopped")
	return nil
}
