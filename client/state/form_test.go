package state_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	runningID = "5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55"
	endedID   = "9c2f4b0e-53c1-4a52-8a3e-0d8f5f3c7a10"
)

// values are the values of a file, by path. A task's values are below its allocation.
type values map[string]any

// fixture writes a file by hand, as another build would.
func fixture(t *testing.T, vs values) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := bolt.Open(filepath.Join(dir, "state.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		for path, v := range vs {
			names := strings.Split(path, "/")
			b, err := tx.CreateBucketIfNotExists([]byte(names[0]))
			for _, name := range names[1 : len(names)-1] {
				if err != nil {
					return err
				}
				b, err = b.CreateBucketIfNotExists([]byte(name))
			}
			if err != nil {
				return err
			}
			raw, isRaw := v.([]byte)
			if !isRaw {
				if raw, err = codec.Encode(v); err != nil {
					return err
				}
			}
			if err := b.Put([]byte(names[len(names)-1]), raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// upstreams returns a file in the format of Nomad 2.0, with a running and an ended allocation.
func upstreams() values {
	alloc := func(id, status string) map[string]any {
		return map[string]any{"Alloc": map[string]any{"ID": id, "NodeID": "n", "Namespace": "default", "JobID": "web", "TaskGroup": "g",
			"ClientStatus": status,
			"Job": map[string]any{"ID": "web",
				"TaskGroups": []any{map[string]any{"Name": "g", "Tasks": []any{map[string]any{"Name": "t"}}}}}}}
	}
	local := map[string]any{"Hooks": map[string]any{"task_dir": map[string]any{"PrestartDone": true}}, "DriverNetwork": nil,
		"RunComplete": false,
		"TaskHandle": map[string]any{"Version": 1, "Config": map[string]any{"ID": "x", "Name": "t"}, "State": "running",
			"DriverState": []byte{1}}}
	return values{
		"meta/version":                                     []byte("2"),
		"allocations/" + runningID + "/alloc":              alloc(runningID, "running"),
		"allocations/" + runningID + "/task-t/local_state": local,
		"allocations/" + runningID + "/task-t/task_state":  map[string]any{"State": "running"},
		"allocations/" + endedID + "/alloc":                alloc(endedID, "complete"),
		"allocations/" + endedID + "/task-t/local_state":   local,
		"allocations/" + endedID + "/task-t/task_state":    map[string]any{"State": "dead"},
		"node_identity/node_identity_state":                map[string]any{"SignedIdentity": "a.b.c"},
	}
}

func without(vs values, paths ...string) values {
	for _, path := range paths {
		delete(vs, path)
	}
	return vs
}

func with(vs values, path string, v any) values {
	vs[path] = v
	return vs
}

// everyKey adds every key of format version 2.
func everyKey(vs values, alloc string) values {
	opaque := map[string]any{"x": 1}
	for _, path := range []string{alloc + "network_status", alloc + "acknowledged_state", alloc + "alloc_volume",
		alloc + "alloc_consul_acl_token_identities",
		"check_results/" + runningID + "/check", "devicemanager/plugin_state", "drivermanager/plugin_state", "dynamicplugins/registry_state",
		"nodemeta/x",
		"host_volumes_to_create/x"} {
		vs[path] = opaque
	}
	vs["meta/upgraded"] = []byte("2026-11-25T10:00:00Z")
	vs["node/node_registration"] = map[string]any{"HasRegistered": true}
	vs[alloc+"deploy_status"] = map[string]any{"Healthy": true}
	vs[alloc+"alloc_identities"] = []any{map[string]any{"AllocID": runningID, "IdentityName": "aws", "JWT": "a.b.c"}}
	return vs
}

// A file of another build is refused and unchanged, unless a process in it may still run.
func TestFilesOfOtherBuilds(t *testing.T) {
	project := func(v string) values {
		return values{"meta/open_nomad": []byte(v),
			"allocations/" + runningID + "/alloc": map[string]any{"Alloc": &nomad.Allocation{ID: runningID, NodeID: "n"}}}
	}
	const below = "allocations/" + runningID + "/"
	const alloc, local, taskState = below + "alloc", below + "task-t/local_state", below + "task-t/task_state"
	ended := func() values { return with(upstreams(), taskState, map[string]any{"State": "dead"}) }
	ours1 := func() values { return with(upstreams(), "meta/open_nomad", []byte("1")) }
	ours := &state.LocalState{TaskHandle: &drivers.TaskHandle{Driver: "exec2", Version: 1, TaskID: "x"}}
	for name, tc := range map[string]struct {
		values
		refused string // part of the error
	}{
		"upstream, running":     {upstreams(), "processes of 1 allocations (" + runningID + ")"},
		"upstream, ended":       {without(upstreams(), alloc, local, "allocations/"+runningID+"/task-t/task_state"), ""},
		"upstream, not started": {without(upstreams(), local), ""},
		"upstream, run complete": {with(upstreams(), local,
			map[string]any{"RunComplete": true, "TaskHandle": map[string]any{"Config": nil}}), ""},
		"upstream, task dead":            {with(upstreams(), "allocations/"+runningID+"/task-t/task_state", map[string]any{"State": "dead"}), ""},
		"upstream, other version":        {with(upstreams(), "meta/version", []byte("3")), `version "3"`},
		"earlier version of ours":        {values{alloc: &nomad.Allocation{ID: runningID, NodeID: "n"}, local: ours}, ""},
		"ours":                           {project("1"), ""},
		"ours, marked":                   {with(project("1"), "meta/version", []byte("open-nomad 1")), ""},
		"ours, marked later":             {with(project("1"), "meta/version", []byte("open-nomad 2")), `version "open-nomad 2"`},
		"marked, not ours":               {with(upstreams(), "meta/version", []byte("open-nomad 1")), `version "open-nomad 1"`},
		"ours, later":                    {project("2"), `format version "2"`},
		"ours, used by upstream":         {with(upstreams(), "meta/open_nomad", []byte("1")), "processes of 1 allocations (" + runningID + ")"},
		"ours, used by a later upstream": {with(project("1"), "meta/version", []byte("3")), `version "3"`},
		"unknown allocation": {values{alloc: map[string]any{"Allocation": map[string]any{"ID": runningID}}},
			"unknown format of the stored allocation"},
		"other allocation": {values{alloc: &nomad.Allocation{ID: endedID, NodeID: "n"}}, "unknown format of the stored allocation"},
		"no msgpack":       {values{alloc: []byte{0xc1}}, runningID},
		"unknown handle": {with(upstreams(), local, map[string]any{"TaskHandle": map[string]any{"Pid": 7}}),
			"unknown format of the stored task handle"},
		"unreadable handle":      {with(upstreams(), local, []byte{0xc1}), "task t"},
		"handle of another name": {with(upstreams(), local, map[string]any{"Handle": map[string]any{"Pid": 7}}), `the key "Handle"`},
		"empty handle": {with(upstreams(), local, map[string]any{"TaskHandle": map[string]any{}}),
			"unknown format of the stored task handle"},
		"handle is a number": {with(upstreams(), local, map[string]any{"TaskHandle": 7}), "unknown format of the stored task handle"},
		"handle of both builds": {with(upstreams(), local,
			map[string]any{"TaskHandle": map[string]any{"Driver": "exec2", "Config": nil}}), "unknown format of the stored task handle"},
		"no local state":   {with(upstreams(), local, []byte{0xc0}), "it is empty"},
		"hooks are a text": {with(upstreams(), local, map[string]any{"Hooks": "x"}), "task-t/local_state"},
		"ours, unknown handle": {with(ours1(), local, map[string]any{"TaskHandle": map[string]any{"Pid": 7}}),
			"unknown format of the stored task handle"},
		"ours, handle of another name": {with(ours1(), local, map[string]any{"Handle": map[string]any{"Pid": 7}}), `the key "Handle"`},
		"ours, damaged value":          {with(ours1(), local, []byte{0xc1}), ""},
		"unreadable task state":        {with(without(upstreams(), local), taskState, []byte{0xc1}), "task-t/task_state"},
		"text as task state":           {with(without(upstreams(), local), taskState, []byte("garbage")), "task-t/task_state"},
		"unknown task state":           {with(without(upstreams(), local), taskState, map[string]any{"Pid": 7}), `the key "Pid"`},
		"unreadable deploy status":     {with(ended(), below+"deploy_status", []byte{0xc1}), "deploy_status"},
		"unknown deploy status":        {with(ended(), below+"deploy_status", map[string]any{"Health": true}), `the key "Health"`},
		"wrapped unknown deploy status": {with(ended(), below+"deploy_status", map[string]any{"X": map[string]any{"Health": true}}),
			`the key "Health"`},
		"unreadable identities":        {with(ended(), below+"alloc_identities", []byte{0xc1}), "alloc_identities"},
		"unknown identities":           {with(ended(), below+"alloc_identities", []any{map[string]any{"Token": "x"}}), `the key "Token"`},
		"unreadable network status":    {with(ended(), below+"network_status", []byte{0xc1}), "network_status"},
		"unreadable node identity":     {with(ended(), "node_identity/node_identity_state", []byte{0xc1}), "node_identity_state"},
		"text as node identity":        {with(ended(), "node_identity/node_identity_state", []byte("a.b.c")), "node_identity_state"},
		"unknown node identity":        {with(ended(), "node_identity/node_identity_state", map[string]any{"JWT": "x"}), `the key "JWT"`},
		"unknown key of an allocation": {with(ended(), below+"tasks", 1), `the key "allocations/`},
		"unknown bucket of one":        {with(ended(), below+"group-g/x", 1), `the bucket "allocations/`},
		"unknown key of a task":        {with(ended(), below+"task-t/pid", 7), `task-t/pid"`},
		"bucket of a task":             {with(ended(), below+"task-t/more/pid", 7), `task-t/more"`},
		"unknown key of the node":      {with(ended(), "node/pids", 7), `the key "node/pids"`},
		"unknown bucket":               {with(ended(), "processes/x", 7), `the bucket "processes"`},
		"unreadable plugin state":      {with(ended(), "drivermanager/plugin_state", []byte{0xc1}), "drivermanager/plugin_state"},
		"no node":                      {with(ended(), alloc, map[string]any{"Alloc": map[string]any{"ID": runningID}}), `its node is ""`},
		"process without allocation":   {without(upstreams(), alloc), "the allocation is not stored"},
		"every known key":              {everyKey(ended(), below), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, tc.values)
			path := filepath.Join(dir, "state.db")
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
			if tc.refused == "" {
				if err != nil {
					t.Fatalf("Open() = %v", err)
				}
				defer db.Close()
				if _, errs := db.Allocs(); len(errs) > 0 {
					t.Errorf("Allocs() = %v", errs)
				}
				return
			}
			if !errors.Is(err, state.ErrForm) || !strings.Contains(err.Error(), tc.refused) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "drain the node") {
				t.Errorf("Open() = %v, want ErrForm, the file, the remedy and %q", err, tc.refused)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// The deployment health and the identities of an allocation are read as they are, or as the only
// value of a map.
func TestWrappedValues(t *testing.T) {
	const below = "allocations/" + endedID + "/"
	health, identities := map[string]any{"Healthy": true}, []any{map[string]any{"IdentityName": "aws", "JWT": "a.b.c"}}
	for name, vs := range map[string]values{
		"plain":   {below + "deploy_status": health, below + "alloc_identities": identities},
		"wrapped": {below + "deploy_status": map[string]any{"D": health}, below + "alloc_identities": map[string]any{"I": identities}},
		"empty":   {below + "deploy_status": map[string]any{"D": nil}, below + "alloc_identities": map[string]any{"I": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			vs[below+"alloc"] = &nomad.Allocation{ID: endedID, NodeID: "n"}
			db := open(t, fixture(t, vs))
			status, err := db.DeployStatus(endedID)
			if err != nil || name == "empty" && status != nil || name != "empty" && (status == nil || status.Healthy == nil || !*status.Healthy) {
				t.Errorf("DeployStatus() = %+v, %v", status, err)
			}
			ids, err := db.Identities(endedID)
			if err != nil || name == "empty" && len(ids) > 0 || name != "empty" && (len(ids) != 1 || ids[0].JWT != "a.b.c") {
				t.Errorf("Identities() = %+v, %v", ids, err)
			}
		})
	}
}

// With AdoptNone the allocations of another build are lost, also after a restart, and their
// handles are deleted.
func TestAdoptNone(t *testing.T) {
	t.Run("upstream's file", func(t *testing.T) { adoptsNone(t, upstreams()) })
	t.Run("ours, used by upstream", func(t *testing.T) { adoptsNone(t, with(upstreams(), "meta/open_nomad", []byte("1"))) })
}

func adoptsNone(t *testing.T, vs values) {
	dir := fixture(t, vs)
	db, err := state.Open(state.Config{Dir: dir, NoSync: true, AdoptNone: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		allocs, errs := db.Allocs()
		if len(allocs) != 2 || len(errs) > 0 {
			t.Fatalf("Allocs() = %d, %v", len(allocs), errs)
		}
		for _, a := range allocs {
			tasks, err := db.Tasks(a.ID)
			switch {
			case err != nil:
				t.Error(err)
			case a.ID == endedID && (state.Abandoned(a) || a.ClientStatus != "complete" || len(tasks) != 1):
				t.Errorf("the ended allocation: %+v, tasks %v", a, tasks)
			case a.ID == runningID && (!state.Abandoned(a) || a.NodeID != "n" || len(tasks) != 0 || a.TaskStates["t"] == nil ||
				!a.TaskStates["t"].Failed):
				t.Errorf("the running allocation: %+v, tasks %v", a, tasks)
			}
		}
		db = reopen(t, db, dir) // without AdoptNone
	}
	if token, err := db.NodeIdentity(); err != nil || token.Reveal() != "a.b.c" {
		t.Errorf("NodeIdentity() = %v, %v", token, err)
	}
}

// Nomad's clients can read a stored allocation.
func TestFormOfAllocations(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	if err := db.PutAlloc(&nomad.Allocation{ID: runningID, NodeID: "n"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(filepath.Join(dir, "state.db"), 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var got struct{ Alloc struct{ ID, NodeID string } }
	err = file.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket([]byte("meta")).Get([]byte("version")); string(v) != "open-nomad 1" {
			t.Errorf("meta/version = %q, want that of this project", v)
		}
		return codec.Decode(tx.Bucket([]byte("allocations")).Bucket([]byte(runningID)).Get([]byte("alloc")), &got)
	})
	if err != nil || got.Alloc.ID != runningID || got.Alloc.NodeID != "n" {
		t.Errorf("the stored value is %+v, %v", got, err)
	}
}

// Nomad's client refuses a state file with a format version that it does not know. Every file that this
// version has opened has such a version, also one that an earlier version or Nomad's client wrote. The
// file can be opened again.
func TestFileNotForNomad(t *testing.T) {
	for name, vs := range map[string]values{
		"new":                     nil,
		"earlier version of ours": {"meta/version": []byte("2"), "meta/open_nomad": []byte("1")},
		"before any version":      {"node/node_registration": map[string]any{"HasRegistered": true}},
		"of Nomad, no process":    {"meta/version": []byte("2")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, vs)
			for range 2 {
				db, err := state.Open(state.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				if got := formatVersion(t, dir); got != "open-nomad 1" {
					t.Errorf("meta/version = %q, want one that Nomad's client does not know", got)
				}
			}
		})
	}
}

// formatVersion returns the value that Nomad's client compares with the versions that it knows.
func formatVersion(t *testing.T, dir string) (got string) {
	t.Helper()
	file, err := bolt.Open(filepath.Join(dir, "state.db"), 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.View(func(tx *bolt.Tx) error {
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			got = string(meta.Get([]byte("version")))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}
