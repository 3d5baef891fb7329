package endpoint_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// An action runs its own command with the stored arguments. A command of the request is ignored.
func TestExec_Action(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	a.Job.TaskGroups[0].Tasks[0].Actions = []*nomad.Action{{Name: "flush", Command: "/bin/flush", Args: []string{"${NOMAD_TASK_NAME}", "-x"}}}
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	open := func() *rpc.Stream {
		s, err := f.RPC.NodeStream(t.Context(), n.NodeID(), "Allocations.Exec")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	req := message.AllocExecRequest{JobID: a.JobID, AllocID: a.ID, Task: "main", Action: "flush", Cmd: []string{"rm"}}
	out, _, exit, err := clienttest.Exec(open(), &req, "")
	if err != nil || exit == nil || exit.ExitCode != 3 {
		t.Fatalf("session: %q %+v %v", out, exit, err)
	}
	if out != "/bin/flush ${NOMAD_TASK_NAME} -x" {
		t.Errorf("the session ran %q", out)
	}
}
