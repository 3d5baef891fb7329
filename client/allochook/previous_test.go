package allochook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/migrate"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// node is a node with allocations, and servers that know one more.
type node struct {
	ended  map[string]chan struct{}
	remote func(index uint64) (*nomad.Allocation, error)
	find   func() error // answers Node.GetNode
	status string       // of the other node
	url    string

	mu      sync.Mutex
	notes   []string
	holds   int
	stopped chan struct{}
	started bool
}

func newNode() *node {
	return &node{ended: map[string]chan struct{}{}, stopped: make(chan struct{}), find: func() error { return nil }}
}

func (n *node) Hold(_ context.Context, id string) (<-chan struct{}, func(), error) {
	n.hold(1)
	return n.ended[id], sync.OnceFunc(func() { n.hold(-1) }), nil
}

// hold changes the number of holds.
func (n *node) hold(by int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holds += by
	return n.holds
}

func (n *node) TaskOf(string, int) string { return "" }

func (n *node) Call(ctx context.Context, _ string, req, resp any) error {
	switch resp := resp.(type) {
	case *message.SingleAllocResponse:
		index := req.(*message.AllocSpecificRequest).MinQueryIndex
		a, err := n.remote(index)
		if err == nil && a != nil && !a.ClientTerminalStatus() {
			select { // a blocking query
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		resp.Alloc, resp.Index = a, index+1
		return err
	case *message.SingleNodeResponse:
		resp.Node = &nomad.Node{ID: "there", Status: n.status}
		return n.find()
	}
	return nil
}

func (n *node) Snapshot(context.Context, *nomad.Node, string, string) (migrate.Remote, error) {
	return migrate.Remote{URL: n.url, HTTP: http.DefaultClient}, nil
}

func (n *node) Started() bool            { return n.started }
func (n *node) Stopped() <-chan struct{} { return n.stopped }
func (n *node) Note(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, text)
}
func (n *node) AssignUser(string) (int, error) { return 0, errors.New("no users") }
func (n *node) Contains(int) bool              { return false }

// config returns the hooks' configuration for an allocation with the disk.
func (n *node) config(root string, disk *nomad.EphemeralDisk, preempted ...string) Config {
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", EphemeralDisk: disk, Tasks: []*nomad.Task{{Name: "t"}}}}}
	return Config{Deps: Deps{AllocDir: root, Peers: n, Users: n}, Start: n, Log: slog.New(slog.DiscardHandler),
		Alloc: &nomad.Allocation{ID: "new", Job: job, TaskGroup: "g", PreviousAllocation: "old", PreemptedAllocations: preempted}}
}

// run runs both hooks.
func (n *node) run(ctx context.Context, c Config) (*previousHook, error) {
	previous := newPreviousHook(c)
	req := &PrerunRequest{Alloc: c.Alloc}
	if err := previous.Prerun(ctx, req, &PrerunResponse{}); err != nil {
		return previous, err
	}
	return previous, newDiskHook(c, previous).Prerun(ctx, req, &PrerunResponse{})
}

// The allocation waits for its predecessor and for those that it preempts.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.ended["old"], n.ended["victim"] = make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := n.run(t.Context(), n.config("/nowhere", nil, "victim", "unknown"))
			done <- err
		}()
		for _, id := range []string{"victim", "old"} {
			synctest.Wait()
			if len(done) > 0 || n.hold(0) != 1 {
				t.Fatalf("it did not wait for %s, or holds %d allocations", id, n.hold(0))
			}
			close(n.ended[id])
		}
		if err := <-done; err != nil || n.hold(0) != 0 {
			t.Errorf("%v, %d holds remain", err, n.hold(0))
		}
		// A stop ends the wait without an error, since the tasks do not start.
		n.ended["old"] = make(chan struct{})
		go func() {
			_, err := n.run(t.Context(), n.config("/nowhere", &nomad.EphemeralDisk{Sticky: true}))
			done <- err
		}()
		synctest.Wait()
		close(n.stopped)
		if err := <-done; err != nil || len(n.notes) > 0 {
			t.Errorf("after a stop: %v, %v", err, n.notes)
		}
		// The end of the agent is an error.
		if n.hold(0) != 0 {
			t.Errorf("%d holds remain after a stop", n.hold(0))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		n.stopped = make(chan struct{})
		if _, err := n.run(ended, n.config("/nowhere", nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the agent: %v", err)
		}
		// Started tasks wait for nothing.
		n.started = true
		if _, err := n.run(t.Context(), n.config("/nowhere", &nomad.EphemeralDisk{Sticky: true})); err != nil {
			t.Error(err)
		}
	})
}

// The servers are asked until the predecessor on another node has ended.
func TestAwaitRemote(t *testing.T) {
	migrating := &nomad.EphemeralDisk{SizeMB: 300, Migrate: true}
	for name, c := range map[string]struct {
		disk   *nomad.EphemeralDisk
		answer func(asked int) (*nomad.Allocation, error)
		asked  int
		found  bool
		took   time.Duration // at least
	}{
		"ends":    {migrating, func(i int) (*nomad.Allocation, error) { return remoteAt(i, 2), nil }, 3, true, 2 * time.Minute},
		"unknown": {migrating, func(int) (*nomad.Allocation, error) { return &nomad.Allocation{ClientStatus: "unknown"}, nil }, 1, true, 0},
		"gone":    {migrating, func(int) (*nomad.Allocation, error) { return nil, apierror.UnknownAlloc("old") }, 1, false, 0},
		"denied":  {migrating, func(int) (*nomad.Allocation, error) { return nil, apierror.ErrPermissionDenied }, 1, false, 0},
		"errors": {migrating, func(i int) (*nomad.Allocation, error) {
			if i == 0 {
				return nil, apierror.ErrNoLeader
			}
			return remoteAt(1, 1), nil
		}, 2, true, time.Second},
		"many errors": {migrating, func(i int) (*nomad.Allocation, error) {
			if i < 10 {
				return nil, apierror.ErrNoLeader
			}
			return remoteAt(1, 1), nil
		}, 11, true, 3 * time.Minute},
		"not migrating": {&nomad.EphemeralDisk{Sticky: true}, func(int) (*nomad.Allocation, error) { return nil, errors.New("asked") }, 0,
			false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, asked := newNode(), 0
				n.remote = func(uint64) (*nomad.Allocation, error) {
					asked++
					return c.answer(asked - 1)
				}
				begun := time.Now()
				h := newPreviousHook(n.config("/nowhere", c.disk))
				err := h.Prerun(t.Context(), &PrerunRequest{Alloc: n.config("", c.disk).Alloc}, nil)
				if err != nil || asked != c.asked || (h.remote != nil) != c.found || time.Since(begun) < c.took {
					t.Errorf("%v, asked %d times in %v, found %v", err, asked, time.Since(begun), h.remote)
				}
			})
		})
	}
}

// remoteAt returns an allocation that ends after a number of answers.
func remoteAt(i, end int) *nomad.Allocation {
	a := &nomad.Allocation{ID: "old", NodeID: "there", ClientStatus: nomad.AllocClientStatusRunning}
	if i >= end {
		a.ClientStatus = nomad.AllocClientStatusComplete
	}
	return a
}

// A failed move is an event. The allocation starts with empty directories.
func TestSoftFailure(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "unknown allocation", http.StatusNotFound)
	}))
	defer web.Close()
	for name, c := range map[string]struct {
		here   bool
		status string
		want   string
	}{
		"here, but removed": {true, "", "no such file or directory"},
		"refused":           {false, nomad.NodeStatusReady, "unknown allocation"},
		"down":              {false, nomad.NodeStatusDown, "which has the data, is down"},
		"disconnected":      {false, nomad.NodeStatusDisconnected, "which has the data, is disconnected"},
	} {
		root := t.TempDir()
		dir, err := allocdir.Build(root, "new")
		if err != nil {
			t.Fatal(err)
		}
		n := newNode()
		n.url, n.status = web.URL, c.status
		n.remote = func(uint64) (*nomad.Allocation, error) { return remoteAt(1, 1), nil }
		if c.here {
			n.ended["old"] = make(chan struct{})
			close(n.ended["old"])
		}
		_, err = n.run(t.Context(), n.config(root, &nomad.EphemeralDisk{SizeMB: 10, Migrate: true}))
		if err != nil || len(n.notes) != 1 || !strings.Contains(n.notes[0], "Data of allocation old was not moved") ||
			!strings.Contains(n.notes[0], c.want) {
			t.Errorf("%s: %v, notes %q", name, err, n.notes)
		}
		if left, err := os.ReadDir(filepath.Join(root, "new/alloc/data")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
		dir.Close()
	}
}

// Servers that do not answer for a time lose no data. A node that does not exist is not asked for again.
func TestFindAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(asked int) error
		asked  int
		want   string // in the error
		most   time.Duration
	}{
		"no leader for a time": {func(i int) error { return []error{apierror.ErrNoLeader, context.DeadlineExceeded, nil}[i] }, 3, "",
			10 * time.Second},
		"never":   {func(int) error { return apierror.ErrNoLeader }, 7, "No cluster leader", 3 * time.Minute},
		"no node": {func(int) error { return apierror.UnknownNode("there") }, 1, "there", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, asked := newNode(), 0
				n.url = "http://there"
				n.find = func() error {
					asked++
					return c.answer(asked - 1)
				}
				cfg := n.config("/nowhere", &nomad.EphemeralDisk{SizeMB: 10, Migrate: true})
				h := newDiskHook(cfg, &previousHook{remote: remoteAt(1, 1)})
				begun := time.Now()
				remote, err := h.find(t.Context(), cfg.Alloc)
				if asked != c.asked || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
					(remote.URL != "") != (err == nil) {
					t.Errorf("asked %d times: %v, %v", asked, remote, err)
				}
				if took := time.Since(begun); took > c.most || c.asked > 1 && took < time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// Owners of another pool of uids are those of the task in the new allocation, or root.
func TestOwners(t *testing.T) {
	n := newNode()
	o := owners{group: &nomad.TaskGroup{Tasks: []*nomad.Task{{Name: "a", User: "www"}, {Name: "b", User: "www"}}}, users: pool{}, start: n}
	for _, c := range []struct {
		path, task string
		uid, gid   int
		want       [2]int
	}{
		{"alloc/data/x", "", 1000, 1000, [2]int{1000, 1000}},
		{"alloc/data/x", "", 1000, 90_000, [2]int{1000, 0}},
		{"alloc/data/x", "", 90_000, 90_000, [2]int{0, 0}}, // of an unknown task
		{"a/local/x", "", 90_000, 50, [2]int{0, 50}},       // the task has a user of its own
		{"gone/local/x", "gone", 90_000, 90_000, [2]int{0, 0}},
		{"alloc/data/x", "a", 80_000, 80_000, [2]int{0, 0}}, // of a node with another pool
		{"alloc/data/x", "a", 80_000, 50, [2]int{0, 50}},
	} {
		uid, gid, err := o.of(c.path, c.task, c.uid, c.gid)
		if err != nil || uid != c.want[0] || gid != c.want[1] {
			t.Errorf("%+v: %d:%d, %v", c, uid, gid, err)
		}
	}
}

// pool contains the uids from 90,000 on.
type pool struct{}

func (pool) Contains(uid int) bool { return uid >= 90_000 }
