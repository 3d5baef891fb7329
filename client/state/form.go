package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// The bucket meta holds the format version of the values. Nomad's clients write meta/version, and
// do not start if they do not know the version of a file. So this project writes a version of its
// own: Nomad's client would otherwise start the tasks in the file a second time. Earlier versions
// of this project wrote Nomad's. meta/open_nomad is specific to this project.
var (
	bucketMeta  = path{[]byte("meta")}
	keyVersion  = []byte("version")
	keyOwn      = []byte("open_nomad")
	version     = []byte("2")            // of the format of Nomad 2.0
	notForNomad = []byte("open-nomad 1") // the same format, written by this project
	ownVersion  = []byte("1")
	abandonedBy = "the client of another build ran this allocation; this client cannot take its processes over"
)

// ErrForm is wrapped by Open if the file has values of an unknown format, or of processes that
// this version cannot take over. The file is unchanged.
var ErrForm = errors.New("of another build")

// storedAlloc is the value under an allocation's key, as in Nomad 2.0. Earlier versions of this
// project stored the allocation itself.
type storedAlloc struct{ Alloc *nomad.Allocation }

// readAlloc returns the allocation in a bucket, or nil if there is none.
func readAlloc(b *bolt.Bucket, id string) (*nomad.Allocation, error) {
	var stored storedAlloc
	if found, err := get(b, keyAlloc, &stored); err != nil || !found {
		return nil, err
	}
	a := stored.Alloc
	if a == nil {
		a = &nomad.Allocation{}
		if _, err := get(b, keyAlloc, a); err != nil {
			return nil, err
		}
	}
	if a.ID != id || a.NodeID == "" {
		return nil, fmt.Errorf("unknown format of the stored allocation: its ID is %q and its node is %q", a.ID, a.NodeID)
	}
	return a, nil
}

// marked reports whether this project has written the file. An unknown version is an error.
func marked(tx *bolt.Tx) (ours bool, err error) {
	meta := bucketMeta.open(tx)
	if meta == nil {
		return false, nil
	}
	project, theirs := meta.Get(keyOwn), meta.Get(keyVersion)
	switch {
	case project != nil && string(project) != string(ownVersion):
		return false, fmt.Errorf("its values have open-nomad format version %q, and only %q is supported", project, ownVersion)
	case theirs != nil && string(theirs) != string(version) && (project == nil || string(theirs) != string(notForNomad)):
		return false, fmt.Errorf("its values have format version %q, and only %q is supported", theirs, version)
	}
	return project != nil, nil
}

// checkForm returns an error for a file with values of an unknown format. The same applies to
// processes of another build, unless abandon is set.
func checkForm(b *bolt.DB, file string, abandon bool) error {
	const remedy = "drain the node with the build that wrote it, and use a new data directory"
	ids, err := checkValues(b)
	switch {
	case err != nil:
		return fmt.Errorf("client state database %s is %w, or damaged: %w: %s", file, ErrForm, err, remedy)
	case len(ids) == 0 || abandon:
		return nil
	}
	return fmt.Errorf("client state database %s is %w, which has started processes of %d allocations (%s) that this "+
		"version cannot take over: %s; "+
		"or start once with -adopt-none: the allocations are reported lost, and you end their processes yourself",
		file, ErrForm, len(ids), strings.Join(ids, ", "), remedy)
}

// checkValues checks every value of a file that this project has not written, and returns the
// result of elsewhere.
func checkValues(b *bolt.DB) (ids []string, err error) {
	err = b.View(func(tx *bolt.Tx) error {
		ours, err := marked(tx)
		if err != nil {
			return err
		}
		if ids, err = elsewhere(tx); err != nil || ours {
			return err
		}
		return checkLayout(tx)
	})
	return ids, err
}

// convert writes every allocation in the current format and marks those with processes of
// another build as lost. It marks the file as written by this project.
func convert(tx *bolt.Tx) error {
	ids, err := elsewhere(tx)
	if err != nil {
		return err
	}
	ours, err := marked(tx)
	if err != nil {
		return err
	}
	if ours && len(ids) == 0 {
		return mark(tx)
	}
	if all := tx.Bucket(bucketAllocs); all != nil {
		var stored []string
		if err := all.ForEachBucket(func(id []byte) error { stored = append(stored, string(id)); return nil }); err != nil {
			return err
		}
		for _, id := range stored {
			found := slices.Contains(ids, id)
			if ours && !found {
				continue
			}
			if err := convertAlloc(all.Bucket([]byte(id)), id, found); err != nil {
				return fmt.Errorf("allocation %s: %w", id, err)
			}
		}
	}
	return mark(tx)
}

func convertAlloc(b *bolt.Bucket, id string, abandoned bool) error {
	a, err := readAlloc(b, id)
	if err != nil || a == nil {
		return err
	}
	if abandoned {
		if err := abandon(b, a); err != nil {
			return err
		}
	}
	raw, err := codec.Encode(storedAlloc{a})
	if err != nil {
		return err
	}
	return errors.Join(b.Put(keyAlloc, raw), convertValue(b, keyDeploy), convertValue(b, keyIdentities))
}

// mark marks the file as written by this project.
func mark(tx *bolt.Tx) error {
	return errors.Join(putIn(bucketMeta, keyVersion, notForNomad)(tx), putIn(bucketMeta, keyOwn, ownVersion)(tx))
}

// convertValue stores a value without the map that another build may have put it in.
func convertValue(b *bolt.Bucket, key []byte) error {
	raw := b.Get(key)
	if raw == nil {
		return nil
	}
	if inner := unwrap(raw); inner != nil {
		return b.Put(key, bytes.Clone(inner))
	}
	return b.Delete(key)
}

// Abandoned reports whether a stored allocation was marked as lost because another build
// started its processes.
func Abandoned(a *nomad.Allocation) bool {
	return a.ClientStatus == nomad.AllocClientStatusLost && a.ClientDescription == abandonedBy
}

// abandon marks an allocation as lost and deletes its task buckets with the handles.
func abandon(b *bolt.Bucket, a *nomad.Allocation) error {
	a.ClientStatus, a.ClientDescription = nomad.AllocClientStatusLost, abandonedBy
	a.TaskStates = map[string]*nomad.TaskState{}
	var names []string
	if err := b.ForEachBucket(func(name []byte) error { names = append(names, string(name)); return nil }); err != nil {
		return err
	}
	for _, name := range names {
		task, ok := strings.CutPrefix(name, taskPrefix)
		if !ok {
			continue
		}
		t, err := readTask(b.Bucket([]byte(name)))
		if err != nil {
			return err
		}
		if t.State == nil {
			t.State = &nomad.TaskState{}
		}
		if t.State.State != nomad.TaskStateDead {
			now := time.Now()
			t.State.State, t.State.Failed, t.State.FinishedAt = nomad.TaskStateDead, true, now
			t.State.Events = append(t.State.Events,
				&nomad.TaskEvent{Type: nomad.TaskRestoreFailed, Time: now.UnixNano(), DisplayMessage: abandonedBy, Message: abandonedBy,
					Details: map[string]string{"message": abandonedBy}})
		}
		a.TaskStates[task] = t.State
		if err := b.DeleteBucket([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}
