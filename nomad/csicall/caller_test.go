package csicall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// fleet answers the calls of nodes. Those in remote are connected to another server.
type fleet struct {
	calls  []string
	tokens []string
	remote map[string]bool
	answer func(ctx context.Context, node string) error
}

func (f *fleet) NodeCall(ctx context.Context, node, method string, req rpc.Request, _ any) error {
	if f.remote[node] {
		return apierror.ErrNoNodeConn
	}
	f.tokens = append(f.tokens, req.Envelope().AuthToken)
	return f.call(ctx, node, method)
}

func (f *fleet) AsServer(ctx context.Context, node, method string, req rpc.ServerCall, _ any) error {
	if !f.remote[node] {
		return fmt.Errorf("%w: no server has it", apierror.ErrNoNodeConn)
	}
	req.Caller().AuthToken = "of the server"
	return f.call(ctx, node, method)
}

func (f *fleet) call(ctx context.Context, node, method string) error {
	f.calls = append(f.calls, node+" "+method)
	return f.answer(ctx, node)
}

func newCaller(f *fleet, log *testlog.Log) *Caller {
	return New(Config{Region: "global", Nodes: func() Nodes { return f }, Peers: f, Store: log.Store, Log: slog.New(slog.DiscardHandler)})
}

// TestCaller_Bounded checks the limits of a plugin that does not answer, or answers with a long text.
func TestCaller_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := testlog.New(nil)
		f := &fleet{answer: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}
		c := newCaller(f, log)
		begun := time.Now()
		err := c.Node(t.Context(), "n1", "DetachVolume", &message.ClientCSINodeDetachVolumeRequest{}, nil)
		if took := time.Since(begun); took != callWithin {
			t.Errorf("a call without an answer took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "on node n1 did not answer NodeDetachVolume in time") {
			t.Errorf("the error is %v", err)
		}
		f.answer = func(context.Context, string) error { return errors.New(strings.Repeat("ä\x1b", 10_000)) }
		err = c.Node(t.Context(), "n1", "DetachVolume", &message.ClientCSINodeDetachVolumeRequest{}, nil)
		if n := len(err.Error()); n > maxError+3 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("the text of the plugin has %d bytes: %q", n, err)
		}
	})
}

func TestTimer(t *testing.T) {
	for _, c := range []struct{ kind, method, want string }{
		{"Controller", "AttachVolume", "nomad.client_csi_controller.attach_volume"},
		{"Node", "DetachVolume", "nomad.client_csi_node.detach_volume"},
	} {
		if got := strings.Join(timer(c.kind, c.method), "."); got != c.want {
			t.Errorf("timer(%s, %s) = %s, want %s", c.kind, c.method, got, c.want)
		}
	}
}

// TestCleaned checks that no error has a secret, and that a plugin cannot write the errors of servers.
func TestCleaned(t *testing.T) {
	secrets := csi.Secrets{"key": "hunter2"}
	flags := &message.CSIVolumeMountOptions{MountFlags: []string{"password=swordfish"}}
	options := &nomad.CSIMountOptions{MountFlags: flags.MountFlags}
	for name, req := range map[string]any{
		"attach":          &message.ClientCSIControllerAttachVolumeRequest{Secrets: secrets, MountOptions: flags},
		"detach":          &message.ClientCSIControllerDetachVolumeRequest{Secrets: secrets},
		"validate":        &message.ClientCSIControllerValidateVolumeRequest{Secrets: secrets},
		"create":          &message.ClientCSIControllerCreateVolumeRequest{Secrets: secrets, MountOptions: options},
		"expand":          &message.ClientCSIControllerExpandVolumeRequest{Secrets: secrets},
		"delete":          &message.ClientCSIControllerDeleteVolumeRequest{Secrets: secrets},
		"snapshot":        &message.ClientCSIControllerCreateSnapshotRequest{Secrets: secrets},
		"delete snapshot": &message.ClientCSIControllerDeleteSnapshotRequest{Secrets: secrets},
		"list snapshots":  &message.ClientCSIControllerListSnapshotsRequest{Secrets: secrets},
	} {
		got := cleaned(errors.New("login with hunter2 failed"), req)
		if want := "login with [REDACTED] failed"; got.Error() != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if len(flagsOf(req)) > 0 {
			got := cleaned(errors.New("mount -o password=swordfish"), req)
			if strings.Contains(got.Error(), "swordfish") {
				t.Errorf("%s: %q has a mount flag", name, got)
			}
		}
	}
	for _, sentinel := range []error{apierror.ErrNoLeader, apierror.ErrPermissionDenied, apierror.ErrNotReady} {
		if err := cleaned(apierror.FromText("mount: "+sentinel.Error()), nil); errors.Is(err, sentinel) {
			t.Errorf("an error of a plugin is %v", sentinel)
		}
	}
	if err := cleaned(fmt.Errorf("%w", apierror.ErrNoNodeConn), nil); !errors.Is(err, apierror.ErrNoNodeConn) {
		t.Errorf("%v is not ErrNoNodeConn", err)
	}
}

// TestLock checks that the calls of one volume wait for each other, and those of others do not.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{})
		unlock, err := c.Lock(t.Context(), "default", "v")
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []volume{{"default", "w"}, {"prod", "v"}} {
			free, err := c.Lock(t.Context(), other.namespace, other.id)
			if err != nil {
				t.Fatal(err)
			}
			free()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "default", "v"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock() of a locked volume = %v", err)
		}
		got := make(chan func())
		go func() {
			second, err := c.Lock(t.Context(), "default", "v")
			if err != nil {
				t.Error(err)
			}
			got <- second
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("two callers have the lock")
		default:
		}
		unlock()
		unlock() // again, without an effect
		second := <-got
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "default", "v"); err == nil {
			t.Error("the second unlock freed the lock of another caller")
		}
		second()
		if len(c.locks.held) != 0 {
			t.Errorf("%d locks remain", len(c.locks.held))
		}
	})
}
