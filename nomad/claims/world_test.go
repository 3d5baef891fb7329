package claims_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/claims"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// plugins are the plugins of all nodes. They record the calls, and fail the test when calls of one volume overlap.
type plugins struct {
	*csicall.Caller // only for Lock
	t               *testing.T

	mu     sync.Mutex
	calls  []string
	busy   map[string]bool
	most   int // calls at once
	answer func(ctx context.Context, call string) error
}

func (p *plugins) Node(ctx context.Context, node, method string, r rpc.ServerCall, _ any) error {
	req := r.(*message.ClientCSINodeDetachVolumeRequest)
	if method != "DetachVolume" || req.NodeID != node || req.PluginID != "ebs" || req.ExternalID != "ext-"+req.VolumeID ||
		req.AccessMode != nomad.VolumeMultiNodeMultiWriter || req.AttachmentMode != nomad.VolumeAttachFilesystem {
		p.t.Errorf("call %s of node %s: %+v", method, node, req)
	}
	return p.call(ctx, req.VolumeID, fmt.Sprintf("unmount %s of %s on %s", req.VolumeID, req.AllocID, node))
}

func (p *plugins) Controller(ctx context.Context, method string, r csicall.ControllerRequest, _ any) error {
	req := r.(*message.ClientCSIControllerDetachVolumeRequest)
	if method != "DetachVolume" || req.PluginID != "ebs" || req.Secrets["key"] != "hunter2" {
		p.t.Errorf("call %s of the controller: %+v", method, req)
	}
	id := strings.TrimPrefix(req.VolumeID, "ext-")
	return p.call(ctx, id, fmt.Sprintf("detach %s from %s", id, req.ClientCSINodeID))
}

func (p *plugins) call(ctx context.Context, volume, call string) error {
	p.mu.Lock()
	if p.busy[volume] {
		p.t.Errorf("calls of volume %s overlap: %s", volume, call)
	}
	p.busy[volume] = true
	p.most = max(p.most, len(p.busy))
	p.calls = append(p.calls, call)
	answer := p.answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.busy, volume)
	}()
	if answer == nil {
		return nil
	}
	return answer(ctx, call)
}

// count returns the number of calls that begin with a text.
func (p *plugins) count(begin string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if strings.HasPrefix(c, begin) {
			n++
		}
	}
	return n
}

// set changes the answers.
func (p *plugins) set(answer func(ctx context.Context, call string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// failing answers calls that begin with a text with an error.
func failing(begin, text string) func(context.Context, string) error {
	return func(_ context.Context, call string) error {
		if strings.HasPrefix(call, begin) {
			return errors.New(text)
		}
		return nil
	}
}

// hanging does not answer calls that begin with a text within the two minutes of a plugin.
func hanging(begin string) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if !strings.HasPrefix(call, begin) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Minute):
			return errors.New("did not answer in time")
		}
	}
}

// sealed are the secrets of all volumes.
type sealed struct{ err error }

func (s *sealed) Of(context.Context, *csi.Volume) (csi.Secrets, error) {
	return csi.Secrets{"key": "hunter2"}, s.err
}

// world is a state with nodes n1 to n3, each with the plugin ebs, and a watcher.
type world struct {
	*testlog.Log
	t       *testing.T
	plugins *plugins
	secrets *sealed
	w       *claims.Watcher
	logged  *bytes.Buffer
	job     *nomad.Job
	written []message.CSIVolumeClaimRequest
	after   func(ctx context.Context) error // called after each entry, if it is set
}

// test runs fn in a bubble of synctest.
func test(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Log: testlog.New(nil), t: t, secrets: &sealed{}, logged: &bytes.Buffer{},
			plugins: &plugins{t: t, Caller: csicall.New(csicall.Config{}), busy: map[string]bool{}}}
		w.renew()
		for i := range 3 {
			w.plugin(fmt.Sprintf("n%d", i+1), csi.PluginMonolith)
		}
		w.job = w.Job(t, nomad.JobTypeService, 1)
		fn(w)
	})
}

// renew makes a watcher, like that of a new leader.
func (w *world) renew() {
	w.w = claims.New(claims.Config{Store: w.Store, Raft: w, Plugins: w.plugins, Secrets: w.secrets,
		Log: slog.New(slog.NewTextHandler(w.logged, nil))})
}

// Apply implements consensus.Log.
func (w *world) Apply(ctx context.Context, t message.CommandType, payload any) (uint64, error) {
	index, err := w.Log.Apply(ctx, t, payload)
	if r, ok := payload.(*message.CSIVolumeClaimRequest); ok && err == nil {
		w.plugins.mu.Lock()
		w.written = append(w.written, *r)
		w.plugins.mu.Unlock()
		if w.after != nil {
			err = w.after(ctx)
		}
	}
	return index, err
}

// plugin registers a node that runs the plugin ebs.
func (w *world) plugin(node string, kind nomad.CSIPluginType) {
	w.t.Helper()
	stored := w.Snapshot().Node(nil, node)
	if stored == nil {
		stored = w.Node(w.t, func(n *nomad.Node) { n.ID = node })
	}
	n := *stored
	for _, e := range csitest.Place(&n, "ebs", kind) {
		w.Must(w.t, e.Type, e.Body)
	}
	w.Must(w.t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
}

// withoutPlugin ends the allocations of the plugin on a node.
func (w *world) withoutPlugin(node string) {
	for a := range w.Snapshot().AllocsByNode(nil, node) {
		if strings.HasPrefix(a.JobID, "ebs-") {
			w.client(a.ID, nomad.AllocClientStatusComplete)
		}
	}
}

// purgePlugin purges the jobs of the plugin.
func (w *world) purgePlugin() {
	for j := range w.Snapshot().Jobs(nil) {
		if strings.HasPrefix(j.ID, "ebs-") {
			w.withoutPlugin(strings.TrimPrefix(j.ID, "ebs-monolith-"))
			w.Must(w.t, message.JobDeregisterRequestType, &message.JobDeregisterRequest{JobID: j.ID, Purge: true,
				WriteRequest: message.WriteRequest{Namespace: j.Namespace}})
		}
	}
	if p := w.Snapshot().CSIPlugin(nil, "ebs"); p != nil {
		w.t.Fatalf("the plugin has jobs %v and instances %v", p.NodeJobs, p.Nodes)
	}
}

// volume registers volumes.
func (w *world) volume(ids ...string) {
	for _, id := range ids {
		w.Must(w.t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Timestamp: time.Now().UnixNano(),
			Volumes: []*csi.Volume{{ID: id, Namespace: "default", PluginID: "ebs", ExternalID: "ext-" + id, Name: id,
				MountOptions: &nomad.CSIMountOptions{MountFlags: []string{"password=swordfish"}}, RequestedCapabilities: []*csi.Capability{
					{AccessMode: nomad.VolumeMultiNodeMultiWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}}})
	}
}

// claim places a running allocation on a node that claims a volume.
func (w *world) claim(volume, alloc, node string) {
	w.t.Helper()
	if w.Snapshot().CSIVolume(nil, "default", volume) == nil {
		w.volume(volume)
	}
	w.Alloc(w.t, w.job, w.Snapshot().Node(nil, node), func(a *nomad.Allocation) {
		a.ID, a.ClientStatus = alloc, nomad.AllocClientStatusRunning
	})
	w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: volume, AllocationID: alloc, NodeID: node,
		ExternalNodeID: "external-" + node, Claim: csi.ClaimWrite, AccessMode: nomad.VolumeMultiNodeMultiWriter,
		AttachmentMode: nomad.VolumeAttachFilesystem, Timestamp: time.Now().UnixNano(),
		WriteRequest: message.WriteRequest{Namespace: "default"}})
}

// client sets the client status of an allocation.
func (w *world) client(alloc, status string) {
	w.t.Helper()
	w.Must(w.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{
		Alloc: []*nomad.Allocation{{ID: alloc, NodeID: w.Snapshot().Alloc(nil, alloc).NodeID, ClientStatus: status}}})
}

// end ends an allocation on its client.
func (w *world) end(alloc string) { w.client(alloc, nomad.AllocClientStatusComplete) }

// node sets the status of a node.
func (w *world) node(id, status string) {
	w.Must(w.t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: id, Status: status,
		UpdatedAt: time.Now().Unix()})
}

// run runs the watcher until stop is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.w.Run(ctx); !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run() = %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// held returns the claim of an allocation, or nil.
func (w *world) held(volume, alloc string) *csi.Claim {
	v := w.Snapshot().CSIVolume(nil, "default", volume)
	if v == nil {
		return nil
	}
	return v.ClaimOf(alloc)
}

// wantFreed fails the test unless the claim is freed.
func (w *world) wantFreed(volume, alloc string) {
	w.t.Helper()
	if c := w.held(volume, alloc); c != nil {
		w.t.Errorf("the claim of %s on %s is %s and waits for %q", alloc, volume, c.State, c.Waits)
	}
}

// wantWaits fails the test unless the claim has the state and waits for something with the text.
func (w *world) wantWaits(volume, alloc string, in csi.ClaimState, text string) {
	w.t.Helper()
	switch c := w.held(volume, alloc); {
	case c == nil:
		w.t.Errorf("the claim of %s on %s is freed", alloc, volume)
	case c.State != in || !strings.Contains(c.Waits, text) || text == "" && c.Waits != "":
		w.t.Errorf("the claim of %s on %s is %s and waits for %q, want %s, %q", alloc, volume, c.State, c.Waits, in, text)
	}
}

// wantCalls compares the calls of plugins.
func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	w.plugins.mu.Lock()
	defer w.plugins.mu.Unlock()
	if !slices.Equal(w.plugins.calls, want) {
		w.t.Errorf("calls are %q, want %q", w.plugins.calls, want)
	}
}

// waitsWritten returns the texts of the log entries that only record a wait.
func (w *world) waitsWritten() (out []string) {
	w.plugins.mu.Lock()
	defer w.plugins.mu.Unlock()
	for _, r := range w.written {
		if r.Waits != "" {
			out = append(out, r.Waits)
		}
	}
	return out
}

// wantNoSecrets fails the test if a secret is in the log of the agent or in state.
func (w *world) wantNoSecrets() {
	w.t.Helper()
	all := w.logged.String() + strings.Join(w.waitsWritten(), "\n")
	for _, secret := range []string{"hunter2", "swordfish"} {
		if strings.Contains(all, secret) {
			w.t.Errorf("%q is in %q", secret, all)
		}
	}
}
