package fsm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// snapshotHandle is nomad.MsgpackHandle with two differences: maps are written
// in the order of their keys, so that equal states give equal bytes, and a
// codec.Raw is written as it is.
var snapshotHandle = func() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = nomad.MsgpackHandle.RawToString
	h.TimeNotBuiltin = nomad.MsgpackHandle.TimeNotBuiltin
	h.MapType = nomad.MsgpackHandle.MapType
	h.TypeInfos = nomad.MsgpackHandle.TypeInfos
	h.Canonical = true
	h.Raw = true
	return h
}()

// snapshot is a view of the state that raft writes out while entries go on
// being applied.
type snapshot struct{ state *state.Snapshot }

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := WriteSnapshot(sink, s.state); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot. The garbage collector does it.
func (s *snapshot) Release() {}

// WriteSnapshot writes the stream of a snapshot.
func WriteSnapshot(w io.Writer, s *state.Snapshot) error {
	buf := bufio.NewWriterSize(w, 1<<20)
	enc := codec.NewEncoder(buf, snapshotHandle)
	if err := enc.Encode(&nomad.SnapshotHeader{}); err != nil {
		return err
	}
	for _, rec := range state.Tables() {
		for row := range rec.Rows(s) {
			if err := buf.WriteByte(rec.Type); err != nil {
				return err
			}
			if err := enc.Encode(row); err != nil {
				return fmt.Errorf("record of type %d (%s): %w", rec.Type, rec.Name, err)
			}
		}
	}
	return buf.Flush()
}

// ReadSnapshot reads the stream of a snapshot into a new store. A record type
// outside the table refuses the whole stream by its number.
func ReadSnapshot(r io.Reader, log *slog.Logger) (*state.Store, error) {
	restore := state.NewRestore(log)
	defer restore.Abort()
	types := map[byte]state.Record{}
	for _, rec := range state.Tables() {
		types[rec.Type] = rec
	}
	// The decoder reads byte by byte from the buffer and never past the end of a
	// value: the type byte that follows is ours.
	buf := bufio.NewReaderSize(r, 1<<20)
	dec := codec.NewDecoder(buf, snapshotHandle)
	if err := dec.Decode(&nomad.SnapshotHeader{}); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	for n := 1; ; n++ {
		kind, err := buf.ReadByte()
		if err == io.EOF {
			return restore.Finish(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", n, err)
		}
		rec, known := types[kind]
		if !known {
			return nil, fmt.Errorf("unrecognized snapshot type %d at record %d", kind, n)
		}
		if err := rec.Read(restore, dec.Decode); err != nil {
			return nil, fmt.Errorf("record %d of type %d (%s): %w", n, kind, rec.Name, err)
		}
	}
}
