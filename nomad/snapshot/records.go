package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// The record types that this package inspects.
const (
	nodeRecord       = 0
	indexRecord      = 2
	allocRecord      = 4
	tokenRecord      = 12
	csiVolumeRecord  = 18
	authMethodRecord = 26
	rootKeyRecord    = 30
	variableRecord   = 22
)

// Check reads every record like a server that restores the archive. It refuses an archive that
// no server could use.
func (a *Archive) Check() error {
	r, err := a.State()
	if err != nil {
		return err
	}
	store, err := fsm.ReadSnapshot(r, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("snapshot archive: %s: %w", stateName, err)
	}
	snap := store.Snapshot()
	for job := range snap.Jobs(nil) {
		if err := codec.CheckNulls(job); err != nil {
			return fmt.Errorf("snapshot archive: %s: job %q: %w", stateName, job.ID, err)
		}
	}
	for key := range snap.RootKeys(nil) {
		if slices.ContainsFunc(key.WrappedKeys, redacted) {
			return fmt.Errorf("snapshot archive: root key %s has no wrapping key: the archive was redacted and cannot be restored", key.KeyID)
		}
	}
	return nil
}

// redacted reports whether the servers themselves wrapped a key and its wrapping key was
// removed.
func redacted(w *rootkey.Wrapped) bool {
	return w != nil && w.Provider == string(rootkey.KEKProviderAEAD) && len(w.KeyEncryptionKey) == 0
}

// StateAt returns the records of the state with the index of every table raised to index, and
// their size in bytes. Blocking queries then return, although the restored state is older. The
// index of the restore is set as well.
func (a *Archive) StateAt(index uint64) (io.Reader, int64, error) {
	r, err := a.State()
	if err != nil {
		return nil, 0, err
	}
	var more bytes.Buffer
	out := fsm.NewRecordWriter(&more)
	for _, table := range append(state.TableNames(), state.IndexRestore) {
		if err := out.Write(indexRecord, &nomad.IndexEntry{Key: table, Value: index}); err != nil {
			return nil, 0, err
		}
	}
	if err := out.Flush(); err != nil {
		return nil, 0, err
	}
	return io.MultiReader(r, &more), a.Meta.Size + int64(more.Len()), nil
}

// Record is one record of an archive.
type Record struct {
	Type byte
	Name string
	// Size is its size in bytes.
	Size int
	// Value is the record without its secrets: a value of package nomad, or of generic types
	// for an unsupported feature.
	Value any
}

// Sizes calls fn with every record, without its value.
func (a *Archive) Sizes(fn func(Record) error) error {
	return a.walk(func(rec state.Record, in *fsm.RecordReader) error {
		var raw msgpack.Raw
		if err := in.Decode(&raw); err != nil {
			return err
		}
		return fn(Record{Type: rec.Type, Name: rec.Name, Size: len(raw) + 1})
	})
}

// Records calls fn with every record and its value.
func (a *Archive) Records(fn func(Record) error) error {
	return a.walk(showing(fn))
}

// Records calls fn with every record of a snapshot stream and its value.
func Records(stream io.Reader, fn func(Record) error) error { return walk(stream, showing(fn)) }

// showing decodes each record without its secrets and passes it to fn.
func showing(fn func(Record) error) func(state.Record, *fsm.RecordReader) error {
	return func(rec state.Record, in *fsm.RecordReader) error {
		v, err := withoutSecrets(rec, in)
		if err != nil {
			return err
		}
		return fn(Record{Type: rec.Type, Name: rec.Name, Value: v})
	}
}

// walk calls fn with each record. fn must decode it.
func (a *Archive) walk(fn func(state.Record, *fsm.RecordReader) error) error {
	r, err := a.State()
	if err == nil {
		err = walk(r, fn)
	}
	if err != nil {
		return fmt.Errorf("snapshot archive: %w", err)
	}
	return nil
}

func walk(r io.Reader, fn func(state.Record, *fsm.RecordReader) error) error {
	in, err := fsm.NewRecordReader(r)
	for err == nil {
		var rec state.Record
		if rec, err = in.Next(); err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(rec, in)
		}
	}
	return fmt.Errorf("%s: %w", stateName, err)
}

// withoutSecrets decodes a record and removes its secrets: keys, tokens, secret IDs, secrets and
// mount flags of volumes, secrets of identity providers, and the encrypted contents of variables.
func withoutSecrets(rec state.Record, in *fsm.RecordReader) (any, error) {
	v := rec.Row()
	if v == nil {
		var generic any
		if err := in.Decode(&generic); err != nil {
			return nil, err
		}
		return generic, nil
	}
	if err := in.Decode(v); err != nil {
		return nil, err
	}
	switch row := v.(type) {
	case *nomad.Node:
		row.SecretID = ""
	case *nomad.Allocation:
		row.SignedIdentities = nil
	case *variable.Encrypted:
		row.Data = nil
	case *csi.Volume:
		return row.Redacted(), nil
	case *rbac.Token:
		row.SecretID = ""
	case *rbac.AuthMethod:
		return row.WithoutSecrets(), nil
	case *rootkey.Key:
		for _, w := range row.WrappedKeys {
			if w != nil {
				w.KeyEncryptionKey = nil
			}
		}
	}
	return v, nil
}

// Redact writes the archive without its secrets. The result can be inspected but not restored.
func (a *Archive) Redact(w io.Writer, dir string) error {
	f, err := Temp(dir)
	if err != nil {
		return err
	}
	defer f.Close() // unlinked already
	out := fsm.NewRecordWriter(f)
	if err := out.Header(); err != nil {
		return err
	}
	err = a.walk(func(rec state.Record, in *fsm.RecordReader) error {
		switch rec.Type {
		case nodeRecord, allocRecord, tokenRecord, csiVolumeRecord, authMethodRecord, rootKeyRecord, variableRecord:
			v, err := withoutSecrets(rec, in)
			if err != nil {
				return err
			}
			return out.Write(rec.Type, v)
		}
		var raw msgpack.Raw
		if err := in.Decode(&raw); err != nil {
			return err
		}
		return out.Write(rec.Type, raw)
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return err
	}
	meta := a.Meta
	if meta.Size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = Write(w, &meta, f)
	return err
}
