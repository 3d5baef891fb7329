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
	job := w.Job(w.t, nomad.JobTypeService, 1, func(j *nomad.Job) { j.Namespace = namespace })
	a := w.Alloc(w.t, job, node, client(nomad.AllocClientStatusRunning))
	w.Must(w.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: id, AllocationID: a.ID, NodeID: node.ID,
		Claim: csi.ClaimWrite, Timestamp: time.Now().UnixNano(), WriteRequest: message.WriteRequest{Namespace: namespace}})
	if ended != "" {
		w.Must(w.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{
			Alloc: []*nomad.Allocation{{ID: a.ID, NodeID: node.ID, ClientStatus: ended}}})
	}
}

func TestCSIClaimGC(t *testing.T) {
	const claimGC, core = nomad.CoreJobCSIVolumeClaimGC, nomad.CoreNamespace
	all := []string{"default/data", "default/logs", "prod/data"}
	both := []string{"default/data", "prod/data"}
	for name, c := range map[string]struct {
		core  string // the job ID of the evaluation
		space string // its namespace
		after time.Duration
		want  []string // the volumes to retry
	}{
		"all":                         {claimGC + ":77", core, 5 * time.Minute, all},
		"too young":                   {claimGC + ":77", core, 5*time.Minute - 1, nil},
		"by force":                    {nomad.CoreJobForceGC + ":77", core, 0, all},
		"one":                         {claimGC + ":logs", core, 0, []string{"default/logs"}},
		"one of all namespaces":       {claimGC + ":data", core, 0, both},
		"one of a namespace":          {claimGC + ":data", "prod", 0, []string{"prod/data"}},
		"one that does not exist":     {claimGC + ":none", core, time.Hour, nil},
		"one whose ID is a number":    {claimGC + ":4", core, time.Hour, nil},
		"one whose allocation runs":   {claimGC + ":runs", core, time.Hour, nil},
		"an index that is also an ID": {claimGC + ":77", core, time.Hour, all},
		"no index":                    {claimGC, core, time.Hour, all},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				prod := &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "prod"}}}
				w.Must(t, message.NamespaceUpsertRequestType, prod)
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
