package state

import (
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// taskPrefix is the prefix of the name of a task's bucket.
const taskPrefix = "task-"

var (
	keyLocalState = []byte("local_state")
	keyTaskState  = []byte("task_state")
)

// LocalState is the state of a task that is not sent to the servers.
type LocalState struct {
	Hooks      map[string]*HookState
	TaskHandle *drivers.TaskHandle
	// DriverNetwork is the network that the driver gave the running task, nil for none.
	DriverNetwork *drivers.TaskNetwork
	RunComplete   bool // the task is dead and its stop hooks have run
}

// HookState is the state of a hook that survives a restart of the agent.
type HookState struct {
	PrestartDone bool // do not run prestart again
	Data         map[string]string
	// Results of a prestart that is done, for every start.
	Env     map[string]string
	Mounts  []drivers.Mount
	Devices []drivers.Device
	Files   []drivers.HostFile
}

// Task is the stored state of one task.
type Task struct {
	Local *LocalState
	State *nomad.TaskState
}

// PutTask stores the non-nil fields of t in one commit.
func (db *DB) PutTask(allocID, task string, t Task) error {
	write, err := taskWrite(allocID, task, t)
	if err != nil {
		return err
	}
	return db.w.put(write)
}

// PutTaskLater is PutTask without waiting for the commit.
func (db *DB) PutTaskLater(allocID, task string, t Task) error {
	write, err := taskWrite(allocID, task, t)
	if err != nil {
		return err
	}
	db.w.later(write)
	return nil
}

// PutTaskWithNext is PutTask in the commit of the next write. The state is lost if the agent
// dies before that.
func (db *DB) PutTaskWithNext(allocID, task string, t Task) error {
	write, err := taskWrite(allocID, task, t)
	if err != nil {
		return err
	}
	db.w.withNext(write, nil)
	return nil
}

// Tasks returns the stored tasks of an allocation by name.
func (db *DB) Tasks(allocID string) (map[string]Task, error) {
	tasks := map[string]Task{}
	err := db.bolt.View(func(tx *bolt.Tx) error {
		alloc := path{bucketAllocs, []byte(allocID)}.open(tx)
		if alloc == nil {
			return nil
		}
		return alloc.ForEachBucket(func(name []byte) error {
			task, ok := strings.CutPrefix(string(name), taskPrefix)
			if !ok {
				return nil
			}
			t, err := readTask(alloc.Bucket(name))
			if err != nil {
				return fmt.Errorf("task %s: %w", task, err)
			}
			tasks[task] = t
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read tasks of allocation %s: %w", allocID, err)
	}
	return tasks, nil
}

func readTask(b *bolt.Bucket) (Task, error) {
	local, state := &LocalState{}, &nomad.TaskState{}
	var t Task
	found, err := get(b, keyLocalState, local)
	if err != nil {
		return t, err
	}
	if found {
		t.Local = local
	}
	found, err = get(b, keyTaskState, state)
	if err != nil {
		return t, err
	}
	if found {
		t.State = state
	}
	return t, nil
}

func taskWrite(allocID, task string, t Task) (func(*bolt.Tx) error, error) {
	p := path{bucketAllocs, []byte(allocID), []byte(taskPrefix + task)}
	var writes []func(*bolt.Tx) error
	if t.Local != nil {
		b, err := codec.Encode(t.Local)
		if err != nil {
			return nil, fmt.Errorf("encode local state of task %s: %w", task, err)
		}
		writes = append(writes, putIn(p, keyLocalState, b))
	}
	if t.State != nil {
		b, err := codec.Encode(t.State)
		if err != nil {
			return nil, fmt.Errorf("encode state of task %s: %w", task, err)
		}
		writes = append(writes, putIn(p, keyTaskState, b))
	}
	return func(tx *bolt.Tx) error {
		for _, w := range writes {
			if err := w(tx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
