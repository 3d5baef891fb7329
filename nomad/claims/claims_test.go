package claims_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

var arrow = regexp.MustCompile(`^([a-z-]+) ──([a-z-]+)──▶ ([a-z-]+)`)

// TestDrawing compares the drawing in the package doc with the moves of claims.
func TestDrawing(t *testing.T) {
	src, err := os.ReadFile("claims.go")
	if err != nil {
		t.Fatal(err)
	}
	type move struct{ from, event, to string }
	drawn := map[move]bool{}
	for line := range strings.Lines(string(src)) {
		rest, _ := strings.CutPrefix(line, "//\t")
		for m := arrow.FindStringSubmatch(rest); m != nil; m = arrow.FindStringSubmatch(rest) {
			drawn[move{m[1], m[2], m[3]}] = true
			rest = rest[strings.Index(rest, "▶ ")+len("▶ "):]
		}
	}
	possible := 0
	for from := csi.ClaimTaken; from <= csi.ClaimUnpublishing; from++ {
		for _, by := range []csi.ClaimEvent{csi.EventEnd, csi.EventNodeDetach, csi.EventControllerDetach} {
			to, err := from.Next(by)
			if err != nil {
				continue
			}
			possible++
			if !drawn[move{from.String(), string(by), to.String()}] {
				t.Errorf("%s ──%s──▶ %s is not drawn", from, by, to)
			}
		}
	}
	if len(drawn) != possible {
		t.Errorf("%d moves are drawn, %d are possible", len(drawn), possible)
	}
}

// edits change a world.
type edits []func(w *world)

const (
	unmount = "unmount v of a on n1"
	detach  = "detach v from external-n1"
)

// TestSteps checks which steps a claim needs. Each case has a claim of allocation a on node n1.
func TestSteps(t *testing.T) {
	mounted := func(w *world) { w.end("a") }
	notConnected := func(w *world) {
		w.plugins.set(func(context.Context, string) error { return apierror.ErrNoNodeConn })
	}
	for name, c := range map[string]struct {
		edit  edits
		calls []string
		state csi.ClaimState // if it is not freed
		waits string         // "" if it is freed
		kept  bool           // the claim is not released at all
	}{
		"ended":         {edit: edits{mounted}, calls: []string{unmount, detach}},
		"failed":        {edit: edits{func(w *world) { w.client("a", nomad.AllocClientStatusFailed) }}, calls: []string{unmount, detach}},
		"running":       {kept: true},
		"to be stopped": {edit: edits{stopA}, kept: true},
		"unknown":       {edit: edits{func(w *world) { w.client("a", nomad.AllocClientStatusUnknown) }}, kept: true},
		"lost, down":    {edit: edits{lostA, nodeIs(nomad.NodeStatusDown)}, calls: []string{detach}},
		"ended, gone":   {edit: edits{mounted, removeNode}, calls: []string{detach}},
		"unknown, down": {edit: edits{func(w *world) { w.client("a", nomad.AllocClientStatusUnknown) }, nodeIs(nomad.NodeStatusDown)},
			kept: true},
		"lost, but ready": {edit: edits{lostA}, calls: []string{unmount, detach}},
		"disconnected": {edit: edits{lostA, nodeIs(nomad.NodeStatusDisconnected), notConnected}, calls: []string{unmount},
			state: csi.ClaimUnpublishing, waits: "node n1 is disconnected and not connected to a server"},
		"not connected": {edit: edits{mounted, notConnected}, calls: []string{unmount},
			state: csi.ClaimUnpublishing, waits: "node n1 is ready and not connected to a server"},
		"allocation gone": {edit: edits{mounted, func(w *world) {
			w.Must(w.t, message.EvalDeleteRequestType, &message.EvalReapRequest{Allocs: []string{"a"}})
		}}, calls: []string{unmount, detach}},
		"no controller needed": {edit: edits{mounted, needsNoController}, calls: []string{unmount}},
		"no attachment":        {edit: edits{mounted, cannotAttach}, calls: []string{unmount}},
		"no healthy controller": {edit: edits{mounted, noController}, calls: []string{unmount, detach},
			state: csi.ClaimNodeDetached,
			waits: `no controller of plugin "ebs" is healthy, and the volume is attached to node n1: run its job again ` +
				"(nomad plugin status ebs): failed to find"},
		"another of the node": {edit: edits{mounted, func(w *world) { w.claim("v", "b", "n1") }}, calls: []string{unmount}},
		"another to be stopped": {edit: edits{mounted, func(w *world) { w.claim("v", "b", "n1"); stop(w, "b") }},
			calls: []string{unmount}},
		"another of another node": {edit: edits{mounted, func(w *world) { w.claim("v", "b", "n2") }}, calls: []string{unmount, detach}},
		"another record of the same volume": {edit: edits{mounted, func(w *world) { again(w); w.claim("again", "b", "n1") }},
			calls: []string{unmount}},
		"another record, on another node": {edit: edits{mounted, func(w *world) { again(w); w.claim("again", "b", "n2") }},
			calls: []string{unmount, detach}},
		"another record, not mounted any more": {edit: edits{mounted, func(w *world) {
			again(w)
			w.claim("again", "b", "n1")
			for _, s := range []csi.ClaimState{csi.ClaimUnpublishing, csi.ClaimNodeDetached, csi.ClaimReadyToFree} {
				w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: "again", AllocationID: "b",
					State: s, Claim: csi.ClaimWrite, WriteRequest: message.WriteRequest{Namespace: "default"}})
			}
		}}, calls: []string{unmount, detach}},
		"the job of the plugin was purged and runs again": {edit: edits{mounted, func(w *world) {
			w.purgePlugin()
			n := *w.Snapshot().Node(nil, "n2")
			job := csitest.Place(&n, "ebs", csi.PluginMonolith)[0] // its controller has not reported yet
			w.Must(w.t, job.Type, job.Body)
			w.plugins.set(failing("detach", `failed to find instances of controller plugin "ebs"`))
		}}, calls: []string{unmount, detach}, state: csi.ClaimNodeDetached, waits: `no controller of plugin "ebs" is healthy`},
		"both of the node": {edit: edits{mounted, func(w *world) { w.claim("v", "b", "n1"); w.end("b") }},
			calls: []string{unmount, "unmount v of b on n1", detach}},
		"another of the node stays mounted": {edit: edits{func(w *world) { w.claim("v", "0", "n1"); w.end("0") }, mounted,
			func(w *world) { w.plugins.set(failing("unmount v of 0", "device is busy")) }},
			calls: []string{"unmount v of 0 on n1", unmount}},
		"no controller at all": {edit: edits{mounted, func(w *world) {
			noController(w)
			for _, n := range []string{"n1", "n2", "n3"} {
				w.withoutPlugin(n)
			}
		}}, calls: []string{unmount, detach}, state: csi.ClaimNodeDetached, waits: `no controller of plugin "ebs" is healthy`},
		"not mounted, not attached": {edit: edits{mounted, func(w *world) {
			w.plugins.set(failing("", "rpc error: code = NotFound desc = no such volume"))
		}}, calls: []string{unmount, detach}},
		"the node fails": {edit: edits{mounted, func(w *world) { w.plugins.set(failing("unmount", "device is busy")) }},
			calls: []string{unmount}, state: csi.ClaimUnpublishing, waits: "unmount on node n1: device is busy"},
		"the controller fails": {edit: edits{mounted, func(w *world) { w.plugins.set(failing("detach", "storage is full")) }},
			calls: []string{unmount, detach}, state: csi.ClaimNodeDetached, waits: "detach from node n1: storage is full"},
		"the plugin has left the node": {edit: edits{mounted, func(w *world) {
			w.withoutPlugin("n1")
			w.plugins.set(failing("unmount", "plugin ebs for type csi-node not found"))
		}}, calls: []string{unmount}, state: csi.ClaimUnpublishing,
			waits: `plugin "ebs" does not run on node n1, where the volume is mounted: run its job there again ` +
				"(nomad plugin status ebs): plugin ebs for"},
		"sealed secrets": {edit: edits{mounted, func(w *world) { w.secrets.err = fmt.Errorf("no root key") }},
			calls: []string{unmount}, state: csi.ClaimNodeDetached, waits: "the secrets of the volume cannot be opened: no root key"},
		"text with sealed secrets": {edit: edits{mounted, func(w *world) {
			w.secrets.err = fmt.Errorf("no root key")
			w.plugins.set(failing("unmount", "hunter2 is wrong"))
		}}, calls: []string{unmount}, state: csi.ClaimUnpublishing,
			waits: "a step on node n1 failed, and its error is not shown because it may contain secrets: " +
				"the secrets of the volume cannot be opened: no root key"},
		"text of a node with secrets": {edit: edits{mounted, func(w *world) {
			w.plugins.set(failing("unmount", "hunter2 is wrong"))
		}}, calls: []string{unmount}, state: csi.ClaimUnpublishing, waits: "unmount on node n1: [REDACTED] is wrong"},
		"text with secrets": {edit: edits{mounted, func(w *world) {
			w.plugins.set(failing("detach", "login with hunter2 and swordfish failed\x1b[0m"))
		}}, calls: []string{unmount, detach}, state: csi.ClaimNodeDetached, waits: "login with [REDACTED] and [REDACTED] failed [0m"},
		"a long text": {edit: edits{mounted, func(w *world) { w.plugins.set(failing("unmount", strings.Repeat("x", 10_000))) }},
			calls: []string{unmount}, state: csi.ClaimUnpublishing, waits: "xxx..."},
		"another build has freed it on the node": {edit: edits{mounted, func(w *world) { stepTo(w, csi.ClaimNodeDetached) }},
			calls: []string{detach}},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				w.claim("v", "a", "n1")
				for _, edit := range c.edit {
					edit(w)
				}
				defer w.run()()
				time.Sleep(400 * time.Millisecond) // before anything is repeated
				w.wantCalls(c.calls...)
				switch {
				case c.kept:
					w.wantWaits("v", "a", csi.ClaimTaken, "")
				case c.waits == "":
					w.wantFreed("v", "a")
				default:
					w.wantWaits("v", "a", c.state, c.waits)
					if n := len(w.held("v", "a").Waits); n > 520 {
						t.Errorf("the text has %d bytes", n)
					}
				}
				w.wantNoSecrets()
			})
		})
	}
}

// again registers the storage of the volume v as another volume.
func again(w *world) {
	w.Must(w.t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: "again",
		Namespace: "default", PluginID: "ebs", ExternalID: "ext-v", RequestedCapabilities: []*csi.Capability{
			{AccessMode: nomad.VolumeMultiNodeMultiWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}}})
}

func lostA(w *world) { w.client("a", nomad.AllocClientStatusLost) }

func stopA(w *world) { stop(w, "a") }

// stop stops an allocation on the servers. Its client has not ended it.
func stop(w *world, alloc string) {
	a := *w.Snapshot().Alloc(nil, alloc)
	a.DesiredStatus = nomad.AllocDesiredStatusStop
	w.Must(w.t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Job: w.job, AllocsUpdated: []*nomad.Allocation{&a}})
}

func nodeIs(status string) func(w *world) { return func(w *world) { w.node("n1", status) } }

func removeNode(w *world) {
	w.Must(w.t, message.NodeBatchDeregisterRequestType, &message.NodeBatchDeregisterRequest{NodeIDs: []string{"n1"}})
}

// instances changes what all nodes report about their controllers.
func instances(w *world, edit func(*nomad.CSIInfo)) {
	for _, id := range []string{"n1", "n2", "n3"} {
		n := *w.Snapshot().Node(nil, id)
		info := *n.CSIControllerPlugins["ebs"]
		able := *info.ControllerInfo
		info.ControllerInfo = &able
		edit(&info)
		n.CSIControllerPlugins = map[string]*nomad.CSIInfo{"ebs": &info}
		w.Must(w.t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
	}
}

func needsNoController(w *world) {
	instances(w, func(i *nomad.CSIInfo) { i.RequiresControllerPlugin = false })
}

func cannotAttach(w *world) {
	instances(w, func(i *nomad.CSIInfo) { i.ControllerInfo.SupportsAttachDetach = false })
}

func noController(w *world) {
	instances(w, func(i *nomad.CSIInfo) { i.Healthy = false })
	w.plugins.set(failing("detach", `failed to find instances of controller plugin "ebs"`))
}

// stepTo records states of the claim of a.
func stepTo(w *world, states ...csi.ClaimState) {
	w.t.Helper()
	for _, s := range append([]csi.ClaimState{csi.ClaimUnpublishing}, states...) {
		w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: "v", AllocationID: "a", State: s,
			Claim: csi.ClaimWrite, Timestamp: time.Now().UnixNano(), WriteRequest: message.WriteRequest{Namespace: "default"}})
	}
}
