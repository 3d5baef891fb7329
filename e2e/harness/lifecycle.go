package harness

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// StopAndWait stops a job and waits until its allocations have ended.
func StopAndWait(t *testing.T, a *cluster.Agent, id string, n int) {
	t.Helper()
	Stop(t, a, id)
	Await(t, a, id, "complete", n)
}

// Lifecycle returns the lifecycle block of a task.
func Lifecycle(hook string, sidecar bool) string {
	return fmt.Sprintf("lifecycle {\n hook = %q\n sidecar = %v\n}\n", hook, sidecar)
}

// SharedFile returns a file in the directory that the tasks of an allocation share.
func SharedFile(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, name string) string {
	t.Helper()
	in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, filepath.Join("alloc/data", name), nil)
	if err != nil {
		t.Fatalf("Cat(%s) = %v", name, err)
	}
	defer in.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
