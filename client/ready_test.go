package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// slow is a driver that recovers a task when the node registers, or after a delay.
type slow struct {
	clienttest.Echo
	registered func() bool
	early      atomic.Bool // the node registered first
}

func (d *slow) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	for wait := time.After(500 * time.Millisecond); ; {
		if d.registered() {
			d.early.Store(true)
			break
		}
		select {
		case <-time.After(time.Millisecond):
			continue
		case <-wait:
		}
		break
	}
	return d.Echo.RecoverTask(ctx, h)
}

// A restarted node registers after its tasks are recovered. Once the node is ready, logs of and
// exec in a running task work.
func TestRestart_RestoredBeforeRegistered(t *testing.T) {
	f, dir := clienttest.StartServer(t), clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h", "stdout_string": "hello"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	tries := f.Tries.Load()
	driver := &slow{Echo: clienttest.Echo{Driver: mock.New(mock.Name, clienttest.Log())},
		registered: func() bool { return f.Tries.Load() > tries }}
	n = clienttest.StartWith(t, clienttest.Config(dir, f.Addr()), driver)
	<-n.Restored()
	s, err := n.RPC().Stream(t.Context(), "FileSystem.Logs")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Encode(&message.FsLogsRequest{AllocID: a.ID, Task: "main", LogType: "stdout", PlainText: true}); err != nil {
		t.Fatal(err)
	}
	var w message.StreamErrWrapper
	if err := s.Decode(&w); err != nil || w.Error != nil || string(w.Payload) != "hello" {
		t.Errorf("logs of a restored task = %q, %+v, %v", w.Payload, w.Error, err)
	}
	<-n.Ready()
	if driver.early.Load() {
		t.Error("the node was registered before its task was recovered")
	}
	st, err := n.RPC().Stream(t.Context(), "Allocations.Exec")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, exit, err := clienttest.Exec(st, &message.AllocExecRequest{AllocID: a.ID, Task: "main", Cmd: []string{"x"}}, "in"); err != nil ||
		exit == nil {
		t.Errorf("exec in a restored task = %+v, %v", exit, err)
	}
}

// A driver that does not answer delays the registration only for a limited time.
func TestRestart_SlowRecovery(t *testing.T) {
	f, dir := clienttest.StartServer(t), clienttest.Dir(t)
	n := clienttest.Start(t, clienttest.Config(dir, f.Addr()))
	a := clienttest.Alloc(map[string]any{"run_for": "1h"})
	f.Place(a)
	f.Until(t, "the allocation runs", func() bool { return f.Status(a) == nomad.AllocClientStatusRunning })
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n = clienttest.StartWith(t, clienttest.Config(dir, f.Addr()), hung{clienttest.Echo{Driver: mock.New(mock.Name, clienttest.Log())}})
	<-n.Ready()
	if !n.HasAlloc(a.ID) {
		t.Error("the allocation is unknown")
	}
}

// hung is a driver that does not return from RecoverTask.
type hung struct{ clienttest.Echo }

func (hung) RecoverTask(ctx context.Context, _ *drivers.TaskHandle) error {
	<-ctx.Done()
	return ctx.Err()
}
