package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/migrate"
	"github.com/open-nomad/open-nomad/command/term"
)

// lostCode is the exit code of a check that found features in use that this version does
// not serve.
const lostCode = 2

func migrateCommand() term.Command {
	return term.Command{
		Name: "operator migrate", Short: "Check what this version does not serve of a Nomad cluster", Predict: complete.PredictNothing,
		Long: `With -check, reads the state of a cluster and lists what this version does not serve.
These are features of jobs, drivers and plugins of nodes, and keys of the configuration.
Then it prints the steps of the migration in order. It changes nothing. -check is required.

    nomad operator migrate -check -snapshot=backup.snap -config=/etc/nomad.d
    nomad operator migrate -check -address=http://10.0.0.1:4646

Without -snapshot the state is read from the agent, which may run Nomad. That requires a
management token, or one with operator { capabilities = ["snapshot-save"] }. Some keys of the
agent's configuration are read from it too. Use -config to check all keys.

Exit codes: 0 if this version serves everything in use, 2 if it does not, 1 after an error.`,
		Setup: func(f *term.Flags) term.Run {
			var formats term.Formats
			formats.Declare(f)
			check := f.Bool("check", false, "Check the cluster and print the steps.")
			file := f.String("snapshot", "", "Read the state from this `file` of 'nomad operator snapshot save'.")
			config := f.Strings("config", "The `path` of a configuration file or directory of an agent to check.\nMay be repeated.")
			detail := f.Detail("List all jobs.")
			return func(ctx context.Context, e *term.Env) error {
				if !*check {
					return errors.New("-check is required: it lists what this version does not serve, and the steps of the migration")
				}
				r, err := checkMigration(ctx, e, *file, *config)
				switch {
				case err != nil:
					return err
				case formats.Wanted():
					err = formats.Print(e, r)
				default:
					e.Println(r.Text(*detail))
				}
				if err == nil && r.Lost {
					return term.Exit(lostCode)
				}
				return err
			}
		},
	}
}

// checkMigration reads the state and the configuration that the flags name.
func checkMigration(ctx context.Context, e *term.Env, file string, files []string) (*migrate.Report, error) {
	if file != "" && e.AddressFlag() != "" {
		return nil, errors.New("-snapshot and -address are mutually exclusive")
	}
	var in migrate.Input
	if len(files) > 0 {
		in.Keys = []migrate.Key{}
		keys, err := config.Differences(files)
		if err != nil {
			return nil, fmt.Errorf("Error checking the configuration: %w", err)
		}
		for _, k := range keys {
			in.Keys = append(in.Keys, migrate.Key(k))
		}
	}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("Error opening snapshot file: %w", err)
		}
		defer f.Close() // opened for reading only
		return report(in, f, file)
	}
	c, err := e.Client()
	if err != nil {
		return nil, err
	}
	body, err := c.Operator().Snapshot((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error reading the state: %w", migrate.Remedy(err))
	}
	defer body.Close() // opened for reading only
	var shown map[string]any
	if in.Cluster, shown = migrate.Ask(ctx, c); shown != nil {
		in.Keys = withShown(in.Keys, shown)
	}
	return report(in, body, "of the agent")
}

// withShown adds the keys that the agent shows to those of the files.
func withShown(files []migrate.Key, shown map[string]any) []migrate.Key {
	out := append([]migrate.Key{}, files...)
	for _, k := range config.DifferencesShown(shown) {
		if !slices.ContainsFunc(files, func(f migrate.Key) bool { return f.Key == k.Key }) {
			out = append(out, migrate.Key(k))
		}
	}
	return out
}

func report(in migrate.Input, archive io.Reader, name string) (r *migrate.Report, err error) {
	if in.State, in.Index, err = migrate.Read(archive); err != nil {
		return nil, fmt.Errorf("Error reading snapshot %s: %s: save it again with 'nomad operator snapshot save'", name,
			strings.TrimPrefix(err.Error(), "snapshot archive: "))
	}
	return migrate.New(in), nil
}
