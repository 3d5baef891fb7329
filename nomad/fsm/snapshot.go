package fsm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// snapshot is a view of the state that raft writes while the FSM applies further entries.
type snapshot struct{ state *state.Snapshot }

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	defer metrics.MeasureSince([]string{"nomad", "fsm", "persist"}, time.Now())
	if err := WriteSnapshot(sink, s.state); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot. It does nothing: the garbage collector frees the view.
func (s *snapshot) Release() {}

// WriteSnapshot writes a snapshot stream.
func WriteSnapshot(w io.Writer, s *state.Snapshot) error {
	out := NewRecordWriter(w)
	if err := out.Header(); err != nil {
		return err
	}
	for _, rec := range state.Tables() {
		for row := range rec.Rows(s) {
			if err := out.Write(rec.Type, row); err != nil {
				return fmt.Errorf("record of type %d (%s): %w", rec.Type, rec.Name, err)
			}
		}
	}
	return out.Flush()
}

// ReadSnapshot reads a snapshot stream into a new store. It refuses a stream with an unknown
// record type.
func ReadSnapshot(r io.Reader, log *slog.Logger) (*state.Store, error) {
	restore := state.NewRestore(log)
	defer restore.Abort()
	in, err := NewRecordReader(r)
	if err != nil {
		return nil, err
	}
	for {
		rec, err := in.Next()
		if err == io.EOF {
			return restore.Finish(), nil
		}
		if err != nil {
			return nil, err
		}
		if err := rec.Read(restore, in.Decode); err != nil {
			return nil, err
		}
	}
}
