package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/backup"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// snapshotCommands save, restore and inspect archives of the state.
func snapshotCommands() []term.Command {
	return []term.Command{snapshotAgentCommand(), snapshotSaveCommand(), snapshotRestoreCommand(), snapshotInspectCommand(),
		snapshotStateCommand(), snapshotRedactCommand()}
}

func snapshotSaveCommand() term.Command {
	return term.Command{
		Name: "operator snapshot save", Args: "[file]", MaxArgs: 1, Short: "Save the state of the servers to a file",
		Long: `Only the owner can read the file: its keys sign identities and decrypt variables. The
default name is backup-<time>.snap, in UTC. An existing file is replaced when the new one is
complete.`,
		Setup: func(f *term.Flags) term.Run {
			stale := f.Bool("stale", false, "Allow any server to answer, even without a leader. The state may be stale.")
			redact := f.Bool("redact", false, "Omit keys, tokens and secret IDs. The file cannot be restored.")
			return func(ctx context.Context, e *term.Env) error {
				name := e.Arg(0)
				if name == "" {
					name = "backup-" + time.Now().UTC().Format("20060102150405") + ".snap"
				}
				if err := save(ctx, e, name, saving{stale: *stale, redact: *redact}); err != nil {
					return fmt.Errorf("Error saving snapshot: %w", err)
				}
				e.Println("State file written to " + name)
				return nil
			}
		},
	}
}

// saving has the flags of operator snapshot save.
type saving struct{ stale, redact bool }

// save writes an archive under a temporary name, verifies it, and renames it.
func save(ctx context.Context, e *term.Env, name string, o saving) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	body, err := c.Operator().Snapshot((&api.QueryOptions{AllowStale: o.stale}).WithContext(ctx))
	if err != nil {
		return err
	}
	defer body.Close()
	return backup.Replace(name, func(f *os.File) error {
		if o.redact {
			a, err := snapshot.Open(body, filepath.Dir(name))
			if err != nil {
				return err
			}
			defer a.Close()
			return a.Redact(f, filepath.Dir(name))
		}
		if _, err := io.Copy(f, body); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		a, err := snapshot.Open(f, filepath.Dir(name))
		if err != nil {
			return err
		}
		return a.Close()
	})
}

func snapshotRestoreCommand() term.Command {
	return term.Command{
		Name: "operator snapshot restore", Args: "<file>", MinArgs: 1, MaxArgs: 1, Short: "Restore the state of the servers from a file",
		Long: `All servers of the region restore the state in the file. Later changes are lost. The
servers verify the complete file before they change anything.`,
		Setup: func(*term.Flags) term.Run {
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				f, err := os.Open(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error opening snapshot file: %w", err)
				}
				defer f.Close() // opened for reading only
				if _, err := c.Operator().SnapshotRestore(f, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error restoring snapshot: %w", err)
				}
				e.Println("Snapshot Restored")
				return nil
			}
		},
	}
}
