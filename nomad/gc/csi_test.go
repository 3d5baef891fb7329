package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

// withPlugin runs the plugin ebs on a node.
func (w *world) withPlugin() *nomad.Node {
	n := *w.Node(w.t)
	for _, e := range csitest.Place(&n, "ebs", csi.PluginMonolith) {
		w.Must(w.t, e.Type, e.Body)
	}
	w.Must(w.t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
	return &n
}

// claim registers a volume with the claim of an allocation, whose client has ended it if ended is not empty.
func (w *world) claim(node *nomad.Node, namespace, id, ended string) {
	w.t.Helper()
	w.Must(w.t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Timestamp: time.Now().UnixNano(),
		Volumes: []*csi.Volume{{ID: id, Namespace: namespace, PluginID: "ebs", RequestedCapabilities: []*csi.Capability{
			{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}}}}})
	a := w.Alloc(w.t, w.Job(w.t, nomad.JobTypeService, 1), node, client(nomad.AllocClientStatusRunning))
	w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: a.ID, NodeID: node.ID,
		Claim: csi.ClaimWrite, Timestamp: time.Now().UnixNano(), WriteRequest: message.WriteRequest{Namespace: namespace}})
	if ended != "" {
		w.Must(w.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{
			Alloc: []*nomad.Allocation{{ID: a.ID, NodeID: node.ID, ClientStatus: ended}}})
	}
}

func TestCSIClaimGC(t *testing.T) {
	for name, c := range map[string]struct {
		core  string // the job ID of the evaluation
		space string // its namespace
		after time.Duration
		want  []string // the volumes to retry
	}{
		"all":                         {nomad.CoreJobCSIVolumeClaimGC + ":77", nomad.CoreNamespace, 5 * time.Minute, []string{"default/data", "default/logs", "prod/data"}},
		"too young":                   {nomad.CoreJobCSIVolumeClaimGC + ":77", nomad.CoreNamespace, 5*time.Minute - 1, nil},
		"by force":                    {nomad.CoreJobForceGC + ":77", nomad.CoreNamespace, 0, []string{"default/data", "default/logs", "prod/data"}},
		"one":                         {nomad.CoreJobCSIVolumeClaimGC + ":logs", nomad.CoreNamespace, 0, []string{"default/logs"}},
		"one of all namespaces":       {nomad.CoreJobCSIVolumeClaimGC + ":data", nomad.CoreNamespace, 0, []string{"default/data", "prod/data"}},
		"one of a namespace":          {nomad.CoreJobCSIVolumeClaimGC + ":data", "prod", 0, []string{"prod/data"}},
		"one that does not exist":     {nomad.CoreJobCSIVolumeClaimGC + ":none", nomad.CoreNamespace, time.Hour, nil},
		"one whose ID is a number":    {nomad.CoreJobCSIVolumeClaimGC + ":4", nomad.CoreNamespace, time.Hour, nil},
		"one whose allocation runs":   {nomad.CoreJobCSIVolumeClaimGC + ":runs", nomad.CoreNamespace, time.Hour, nil},
		"an index that is also an ID": {nomad.CoreJobCSIVolumeClaimGC + ":77", nomad.CoreNamespace, time.Hour, []string{"default/data", "default/logs", "prod/data"}},
		"no index":                    {nomad.CoreJobCSIVolumeClaimGC, nomad.CoreNamespace, time.Hour, []string{"default/data", "default/logs", "prod/data"}},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				w.Must(t, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "prod"}}})
				n := w.withPlugin()
				w.claim(n, "default", "data", nomad.AllocClientStatusComplete)
				w.claim(n, "default", "logs", nomad.AllocClientStatusLost)
				w.claim(n, "prod", "data", nomad.AllocClientStatusComplete)
				w.claim(n, "default", "runs", "")
				w.claim(n, "default", "4", nomad.AllocClientStatusUnknown)
				w.claim(n, "default", "77", "")
				time.Sleep(c.after)
				eval := nomad.NewCoreEval("", 77, time.Now())
				eval.JobID, eval.Namespace = c.core, c.space
				if err := w.c.Process(w.t.Context(), eval); err != nil {
					t.Error(err)
				}
				slices.Sort(w.retried)
				if !slices.Equal(w.retried, c.want) {
					t.Errorf("retried %q, want %q", w.retried, c.want)
				}
			})
		})
	}
}

// TestCSIPluginGC checks that a plugin with a job, or with instances, is not collected. State removes the others itself.
func TestCSIPluginGC(t *testing.T) {
	test(t, func(w *world) {
		w.before = func(method string) {
			if method == "CSIPlugin.Delete" {
				t.Error("a plugin in use is collected")
			}
		}
		w.withPlugin()
		w.Must(t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: pluginJob("empty")})
		time.Sleep(2 * time.Hour)
		w.run(nomad.CoreJobCSIPluginGC)
		w.run(nomad.CoreJobForceGC)
		for _, id := range []string{"ebs", "empty"} {
			if w.Snapshot().CSIPlugin(nil, id) == nil {
				t.Errorf("plugin %s was collected, although it has a job", id)
			}
		}
	})
}

// pluginJob returns a job that runs a plugin and has no allocation.
func pluginJob(plugin string) *nomad.Job {
	return csitest.Place(&nomad.Node{ID: nomad.NewID()}, plugin, csi.PluginNode)[0].Body.(*message.JobRegisterRequest).Job
}
