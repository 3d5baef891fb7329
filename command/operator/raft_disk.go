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

// raftDiskCommands read the directory of a server that does not run.
func raftDiskCommands() []term.Command {
	return []term.Command{raftInfoCommand(), raftLogsCommand(), raftStateCommand(), raftMigrateCommand()}
}

// offlineLong is what the help of all of them says.
const offlineLong = "The server must not run. Its files are read, and not changed. <data dir> is the data_dir of\nits agent, or the directory server or raft below it."

// raftLogs is the one that takes the general flags, without effect: scripts give them.
const raftLogs = "operator raft logs"

// offline makes a command that reads the directory which its argument names.
func offline(name, short, long string, setup func(*term.Flags) func(*term.Env, *consensus.Offline) error) term.Command {
	return term.Command{
		Name: name, Args: "<data dir>", MinArgs: 1, MaxArgs: 1, Local: name != raftLogs, Short: short, Long: strings.TrimSpace(offlineLong + "\n\n" + long),
		Setup: func(f *term.Flags) term.Run {
			show := setup(f)
			return func(_ context.Context, e *term.Env) error {
				o, err := consensus.OpenOffline(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error opening the Raft log: %w", err)
				}
				defer o.Close() // only read from
				if err := show(e, o); err != nil {
					return fmt.Errorf("Error reading the Raft log: %w", err)
				}
				return nil
			}
		},
	}
}

func raftInfoCommand() term.Command {
	return offline("operator raft info", "Show what the Raft log of a stopped server holds", "", func(*term.Flags) func(*term.Env, *consensus.Offline) error {
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
	return offline(raftLogs, "Print the entries of a stopped server's Raft log as JSON",
		"Each entry is an object. Tokens, keys, secret IDs and what is encrypted are replaced by\n\"<redacted>\"; what jobs hold in their own text stays.",
		func(f *term.Flags) func(*term.Env, *consensus.Offline) error {
			pretty := f.Bool("pretty", false, "Print the objects indented, not one on a line.")
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
	return offline("operator raft state", "Print the state that a stopped server would have, as JSON",
		"It is made of the newest snapshot and the entries after it, of which the last may not have\nbeen committed. Keys, tokens and secret IDs are left out.",
		func(f *term.Flags) func(*term.Env, *consensus.Offline) error {
			until := f.Int64("last-index", 0, "The `index` of the last entry to apply; 0 or less counts from the end\nof the log.")
			return func(e *term.Env, o *consensus.Offline) error { return raftState(e, o, *until) }
		})
}

// raftState rebuilds the state and prints it.
func raftState(e *term.Env, o *consensus.Offline, until int64) error {
	machine, err := rebuild(o, until)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(fsm.WriteSnapshot(w, machine.State().Snapshot())) }()
	defer r.Close() // ends the writer, too
	return printState(e, func(fn func(snapshot.Record) error) error { return snapshot.Records(r, fn) }, func(any) bool { return true })
}

// rebuild applies the newest snapshot and the entries after it, up to one.
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
		return nil, fmt.Errorf("index %d is older than the newest snapshot, which is of index %d", until, done)
	}
	return machine, o.Entries(done+1, func(l *raft.Log) error {
		if l.Index > uint64(until) || l.Type != raft.LogCommand {
			return nil
		}
		machine.Apply(l) // an error that it answers was the caller's, then
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
		Short: "Move the Raft log of a stopped server from one log store to the other",
		Long: `From boltdb to wal, or from wal to boltdb: the server then needs the other
server.raft_logstore.backend. The old log is kept beside the new one, under a name that
ends with .migrated and the time.`,
		Setup: func(f *term.Flags) term.Run {
			yes := f.Bool("yes", false, "Don't ask.")
			return func(ctx context.Context, e *term.Env) error {
				if !*yes {
					e.Printf("Move the Raft log in %s to the other log store? [y/N] ", e.Arg(0))
					answer, _ := bufio.NewReader(e.In).ReadString('\n') // the end of the input is a no
					if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
						return fmt.Errorf("nothing was done: answer y, or give -yes")
					}
				}
				m, err := consensus.Migrate(ctx, e.Arg(0), slog.New(slog.DiscardHandler))
				if err != nil {
					return fmt.Errorf("Error migrating the Raft log: %w", err)
				}
				e.Printf("Moved %d entries from %s to %s. Set server { raft_logstore { backend = %q } }.\n", m.Entries, m.From, m.To, m.To)
				e.Printf("The old log is kept as %s: remove it when the server runs well.\n", m.Kept)
				return nil
			}
		},
	}
}
