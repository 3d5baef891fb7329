package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
)

// The keys of a task's local state in both builds, and of a stored task handle in each.
var (
	localKeys          = []string{"Hooks", "DriverNetwork", "TaskHandle", "RunComplete"}
	handleKeys         = []string{"Driver", "Version", "TaskID", "State"}
	upstreamHandleKeys = []string{"Config", "DriverState", "State", "Version"}
)

// localState checks a task's local state.
func localState(raw []byte) error {
	if _, err := readLocal(raw); err != nil {
		return err
	}
	_, err := decodeOne[LocalState](raw)
	return err
}

// otherTask is the part of a task's local state that identifies the build of its process.
type otherTask struct {
	complete  bool // the task has ended
	upstreams bool // another build stored the handle
}

// readLocal reads a task's local state. Every key outside the two known forms is an error that
// wraps errUnknown, because it may belong to a process.
func readLocal(raw []byte) (otherTask, error) {
	local, err := mapOf(raw, localKeys)
	if err != nil {
		return otherTask{}, fmt.Errorf("local state: %w", err)
	}
	complete, ok := local["RunComplete"].(bool)
	if !ok && local["RunComplete"] != nil {
		return otherTask{}, fmt.Errorf("%w of the stored local state: RunComplete is %v", errUnknown, local["RunComplete"])
	}
	if local["TaskHandle"] == nil {
		return otherTask{complete: complete}, nil
	}
	handle, _ := local["TaskHandle"].(map[string]any)
	ours, upstreams := handle["Driver"] != nil, handle["Driver"] == nil
	for key := range handle {
		ours = ours && slices.Contains(handleKeys, key)
		upstreams = upstreams && slices.Contains(upstreamHandleKeys, key)
	}
	if len(handle) == 0 || !ours && !upstreams {
		return otherTask{}, fmt.Errorf("%w of the stored task handle", errUnknown)
	}
	return otherTask{complete: complete, upstreams: upstreams}, nil
}

// usedElsewhere reports whether the task in a bucket may have a process that another build
// started.
func usedElsewhere(b *bolt.Bucket) (bool, error) {
	raw := b.Get(keyLocalState)
	if raw == nil {
		return false, nil
	}
	used, err := readLocal(raw)
	if err != nil || !used.upstreams {
		return false, err
	}
	var task nomad.TaskState
	if _, err := get(b, keyTaskState, &task); err != nil {
		return false, err
	}
	return !used.complete && task.State != nomad.TaskStateDead, nil
}

// elsewhere returns the IDs of the allocations with processes that another build started. A
// value that cannot be read is an error. In a file of this project only an unknown local state of
// a task is one: any other value is damaged, and Allocs or Tasks reports it. Files of this
// project are searched too, because Nomad's client may have used them since.
func elsewhere(tx *bolt.Tx) ([]string, error) {
	ours, err := marked(tx)
	if err != nil {
		return nil, err
	}
	all := tx.Bucket(bucketAllocs)
	if all == nil {
		return nil, nil
	}
	var ids []string
	err = all.ForEachBucket(func(id []byte) error {
		found, err := allocElsewhere(all.Bucket(id), string(id))
		if err != nil && (!ours || errors.Is(err, errUnknown)) {
			return fmt.Errorf("allocation %s: %w", id, err)
		}
		if found {
			ids = append(ids, string(id))
		}
		return nil
	})
	return ids, err
}

// allocElsewhere reports whether a task of an allocation may have a process that another build
// started.
func allocElsewhere(b *bolt.Bucket, id string) (found bool, err error) {
	err = b.ForEachBucket(func(name []byte) error {
		task, ok := strings.CutPrefix(string(name), taskPrefix)
		if !ok {
			return nil
		}
		one, err := usedElsewhere(b.Bucket(name))
		if err != nil {
			return fmt.Errorf("task %s: %w", task, err)
		}
		found = found || one
		return nil
	})
	if err != nil {
		return false, err
	}
	a, err := readAlloc(b, id)
	switch {
	case err != nil:
		return false, err
	case a == nil && found:
		return false, fmt.Errorf("%w: a process was started and the allocation is not stored", errUnknown)
	}
	return found && !a.ClientTerminalStatus(), nil
}
