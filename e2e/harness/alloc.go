package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// WaitCollected waits until the node has removed purged allocations.
func WaitCollected(t *testing.T, a *cluster.Agent, data string) {
	t.Helper()
	Within(t, Patience, "the node removes what was purged", func() bool {
		if err := a.Client.System().GarbageCollect(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(filepath.Join(data, "alloc"))
		return err == nil && len(left) == 0
	})
}

// OnlyAlloc waits for the only allocation of a job and returns it.
func OnlyAlloc(t *testing.T, a *cluster.Agent, job string) *api.AllocationListStub {
	t.Helper()
	allocs := AllAllocs(t, a, job)
	if len(allocs) != 1 {
		t.Fatalf("job %s has %d allocations, want 1", job, len(allocs))
	}
	return allocs[0]
}

// Log returns the output of a task.
func Log(a *cluster.Agent, alloc *api.AllocationListStub) string {
	in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: alloc.ID, NodeID: alloc.NodeID, Namespace: alloc.Namespace},
		"alloc/logs/t.stdout.0", nil)
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return ""
	}
	return string(text)
}

// PID returns the process ID that a counting job printed.
func PID(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub) string {
	t.Helper()
	pid := ""
	Within(t, Patience, "pid of "+alloc.Name, func() bool {
		first, _, ok := strings.Cut(Log(a, alloc), "\n")
		pid = strings.TrimPrefix(first, "pid ")
		return ok && pid != ""
	})
	return pid
}

// ExecInRegion runs a command in the only task of an allocation in another region.
func ExecInRegion(t *testing.T, a *cluster.Agent, region string, alloc *api.AllocationListStub) {
	t.Helper()
	var task string
	for task = range alloc.TaskStates {
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var out bytes.Buffer
	code, err := a.Client.Allocations().Exec(ctx, &api.Allocation{ID: alloc.ID}, task, false, []string{"sh", "-c", "cat; exit 6"},
		strings.NewReader("over there"), &out, io.Discard,
		nil, &api.QueryOptions{Region: region})
	if code != 6 || out.String() != "over there" || err != nil {
		t.Errorf("a command in region %s: exit %d, %q, %v", region, code, &out, err)
	}
}

// Allocs lists the allocations of a job with a status.
func Allocs(t *testing.T, a *cluster.Agent, job, status string) []*api.AllocationListStub {
	t.Helper()
	var out []*api.AllocationListStub
	for _, al := range AllAllocs(t, a, job) {
		if al.ClientStatus == status {
			out = append(out, al)
		}
	}
	return out
}

// AllAllocs lists the allocations of a job. It retries until the cluster has a leader.
func AllAllocs(t *testing.T, a *cluster.Agent, job string) (all []*api.AllocationListStub) {
	t.Helper()
	Succeeds(t, "list the allocations of "+job, func() (err error) {
		all, _, err = a.Client.Jobs().Allocations(job, true, nil)
		return err
	})
	return all
}

// Await waits until exactly n allocations of a job have a status, and returns them.
func Await(t *testing.T, a *cluster.Agent, job, status string, n int) []*api.AllocationListStub {
	t.Helper()
	var out []*api.AllocationListStub
	defer func() {
		if !t.Failed() {
			return
		}
		all, _, _ := a.Client.Jobs().Allocations(job, true, nil)
		for _, al := range all {
			t.Logf("%s of %s: %s, wanted %s (%s)", al.ID, al.Name, al.ClientStatus, al.DesiredStatus, al.DesiredDescription)
			for name, task := range al.TaskStates {
				for _, ev := range task.Events {
					t.Logf("  %s: %s: %s", name, ev.Type, ev.DisplayMessage)
				}
			}
		}
	}()
	Within(t, Patience, fmt.Sprintf("%d allocations of %s are %s", n, job, status), func() bool {
		out = Allocs(t, a, job, status)
		return len(out) == n
	})
	return out
}

// CountByNode counts allocations by node name.
func CountByNode(allocs []*api.AllocationListStub) map[string]int {
	out := map[string]int{}
	for _, al := range allocs {
		out[al.NodeName]++
	}
	return out
}

// WaitLog waits until a task has written something.
func WaitLog(t *testing.T, a *cluster.Agent, al *api.AllocationListStub) string {
	t.Helper()
	text := ""
	Within(t, Patience, "a line in the log of "+al.Name, func() bool {
		text = Log(a, al)
		return strings.HasSuffix(text, "\n")
	})
	return text
}

// Events lists the types of a task's events.
func Events(al *api.AllocationListStub, task string) []string {
	var out []string
	for _, ev := range al.TaskStates[task].Events {
		out = append(out, ev.Type)
	}
	return out
}

// Event returns a task's last event of a type.
func Event(t *testing.T, al *api.AllocationListStub, task, kind string) *api.TaskEvent {
	t.Helper()
	for _, ev := range slices.Backward(al.TaskStates[task].Events) {
		if ev.Type == kind {
			return ev
		}
	}
	t.Fatalf("task %s has no event %q: %v", task, kind, Events(al, task))
	return nil
}
