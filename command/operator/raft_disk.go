package operator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// raftDiskCommands read the Raft directory of a stopped server.
func raftDiskCommands() []term.Command {
	return []term.Command{raftInfoCommand(), raftLogsCommand(), raftStateCommand(), raftMigrateCommand()}
}

// offlineLong begins the long help of the commands for stopped servers.
const offlineLong = "The server must be stopped. The command reads its files and does not change them. <data dir> is\n" +
	"the data_dir of its agent, or the directory server or raft below it."

// raftLogs accepts and ignores the common flags, as in Nomad 2.0.
const raftLogs = "operator raft logs"

// offline returns a command that reads the Raft directory in its argument.
func offline(name, short, long string, setup func(*term.Flags) func(*term.Env, *consensus.Offline) error) term.Command {
	return term.Command{
		Name: name, Args: "<data dir>", MinArgs: 1, MaxArgs: 1, Local: name != raftLogs, Short: short, Long: strings.TrimSpace(offlineLong +
			"\n\n" + long),
		Setup: func(f *term.Flags) term.Run {
			show := setup(f)
			return func(_ context.Context, e *term.Env) error {
				o, err := consensus.OpenOffline(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error opening the Raft log: %w", err)
				}
				defer o.Close() // opened for reading only
				if err := show(e, o); err != nil {
					return fmt.Errorf("Error reading the Raft log: %w", err)
				}
				return nil
			}
		},
	}
}

func raftInfoCommand() term.Command {
	return offline("operator raft info", "Show a summary of the Raft log of a stopped server", "",
		func(*term.Flags) func(*term.Env, *consensus.Offline) error {
			return raftInfo
		})
}

func raftInfo(e *term.Env, o *consensus.Offline) error {
	first, last, err := o.Bounds()
	if err != nil {
		return err
	}
	snaps, err := o.Snapshots()
	if err != nil {
		return err
	}
	var lastTerm uint64
	var members *raft.Configuration
	if len(snaps) > 0 {
		members = &snaps[0].Configuration
	}
	err = o.Entries(0, func(l *raft.Log) error {
		lastTerm = l.Term
		if l.Type == raft.LogConfiguration {
			c := raft.DecodeConfiguration(l.Data)
			members = &c
		}
		return nil
	})
	if err != nil {
		return err
	}
	count := uint64(0)
	if last > 0 {
		count = last - first + 1
	}
	term1, votedIn, votedFor := o.Vote()
	e.Println(term.Pairs([]string{term.Row("Path", o.Dir), term.Row("Backend", o.Backend), term.Row("Entries", count),
		term.Row("First Index", first), term.Row("Last Index", last), term.Row("Last Term", lastTerm),
		term.Row("Current Term", term1), term.Row("Last Vote Term", votedIn), term.Row("Last Vote Candidate", votedFor)}))
	if members != nil {
		rows := []string{"ID|Address|Voter"}
		for _, s := range members.Servers {
			rows = append(rows, term.Row(string(s.ID), string(s.Address), s.Suffrage == raft.Voter))
		}
		e.Println("\nServers")
		e.Println(term.Table(rows))
	}
	if len(snaps) > 0 {
		rows := []string{"ID|Index|Term|Size"}
		for _, s := range snaps {
			rows = append(rows, term.Row(s.ID, s.Index, s.Term, term.Bytes(uint64(s.Size))))
		}
		e.Println("\nSnapshots")
		e.Println(term.Table(rows))
	}
	return nil
}

func raftLogsCommand() term.Command {
	return offline(raftLogs, "Print the Raft log entries of a stopped server as JSON",
		"Each entry is an object. Tokens, keys, secret IDs and encrypted data are replaced by\n"+
			"\"<redacted>\". Secrets in the text of jobs are not.",
		func(f *term.Flags) func(*term.Env, *consensus.Offline) error {
			pretty := f.Bool("pretty", false, "Print indented objects instead of one per line.")
			return func(e *term.Env, o *consensus.Offline) error {
				out := bufio.NewWriter(e.Out)
				if err := o.Entries(0, func(l *raft.Log) error { return printEntry(out, l, *pretty) }); err != nil {
					return err
				}
				return out.Flush()
			}
		})
}

func raftStateCommand() term.Command {
	return offline("operator raft state", "Print the state of a stopped server as JSON",
		"The state is the newest snapshot with the log entries after it applied. The last entries may be\n"+
			"uncommitted. Keys, tokens and secret IDs are omitted.",
		func(f *term.Flags) func(*term.Env, *consensus.Offline) error {
			until := f.Int64("last-index", 0, "The `index` of the last entry to apply. Zero or less counts from the end\nof the log.")
			return func(e *term.Env, o *consensus.Offline) error { return raftState(e, o, *until) }
		})
}

// raftState rebuilds and prints the state.
func raftState(e *term.Env, o *consensus.Offline, until int64) error {
	machine, err := rebuild(o, until)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(fsm.WriteSnapshot(w, machine.State().Snapshot())) }()
	defer r.Close() // also stops the writer
	return printState(e, func(fn func(snapshot.Record) error) error { return snapshot.Records(r, fn) }, func(any) bool { return true })
}

// rebuild restores the newest snapshot and applies the entries after it, up to index until.
func rebuild(o *consensus.Offline, until int64) (*fsm.FSM, error) {
	log := slog.New(slog.DiscardHandler)
	machine := fsm.New(state.New(log), nil, log)
	snaps, err := o.Snapshots()
	if err != nil {
		return nil, err
	}
	_, last, err := o.Bounds()
	if err != nil {
		return nil, err
	}
	done := uint64(0)
	if len(snaps) > 0 {
		in, err := o.OpenSnapshot(snaps[0].ID)
		if err != nil {
			return nil, err
		}
		if err := machine.Restore(in); err != nil {
			return nil, err
		}
		done = snaps[0].Index
	}
	if until <= 0 {
		until += int64(max(last, done))
	}
	if uint64(max(until, 0)) < done {
		return nil, fmt.Errorf("index %d is older than the newest snapshot (index %d)", until, done)
	}
	return machine, o.Entries(done+1, func(l *raft.Log) error {
		if l.Index > uint64(until) || l.Type != raft.LogCommand {
			return nil
		}
		machine.Apply(l) // the result went to the caller at that time
		select {
		case err := <-machine.Failed():
			return err
		default:
			return nil
		}
	})
}

func raftMigrateCommand() term.Command {
	return term.Command{
		Name: "operator raft migrate-backend", Args: "<data dir>", MinArgs: 1, MaxArgs: 1, Local: true,
		Short: "Convert the Raft log of a stopped server to the other log store",
		Long: `Converts from boltdb to wal, or from wal to boltdb. Then set the other backend in
server.raft_logstore.backend. The old log is kept in the same directory, under a name that
ends with .migrated and the time.`,
		Setup: func(f *term.Flags) term.Run {
			yes := f.Bool("yes", false, "Do not ask for confirmation.")
			return func(ctx context.Context, e *term.Env) error {
				if !*yes && !e.Confirm(fmt.Sprintf("Convert the Raft log in %s to the other log store? [y/N]", e.Arg(0))) {
					return fmt.Errorf("canceled: answer y, or use -yes")
				}
				m, err := consensus.Migrate(ctx, e.Arg(0), slog.New(slog.DiscardHandler))
				if err != nil {
					return fmt.Errorf("Error migrating the Raft log: %w", err)
				}
				e.Printf("Copied %d entries from %s to %s. Set server { raft_logstore { backend = %q } }.\n", m.Entries, m.From, m.To, m.To)
				e.Printf("The old log is kept as %s. Remove it when the server runs with the new one.\n", m.OldLog)
				return nil
			}
		},
	}
}
