package claims_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// With stop_on_client_after, the claim of a lost allocation is not released before its client has stopped it: until then it may
// write. A node that is purged does not exist any more, and an ended allocation does not write.
func TestStopOnClientAfter(t *testing.T) {
	const within = 10 * time.Minute
	for name, c := range map[string]struct {
		edit  func(w *world)
		waits bool
	}{
		"lost":               {lostA, true},
		"ended, then down":   {func(w *world) { w.end("a") }, false},
		"lost, node removed": {func(w *world) { lostA(w); removeNode(w) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				w.job = w.Job(t, nomad.JobTypeService, 1, func(j *nomad.Job) {
					after := within
					j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{StopOnClientAfter: &after}
				})
				w.claim("v", "a", "n1")
				w.node("n1", nomad.NodeStatusDown)
				c.edit(w)
				defer w.run()()
				time.Sleep(400 * time.Millisecond)
				if !c.waits {
					w.wantFreed("v", "a")
					return
				}
				w.wantWaits("v", "a", csi.ClaimUnpublishing,
					"node n1 is down, and its client may take until 2000-01-01T00:10:05Z to stop the allocation")
				time.Sleep(within)
				w.wantWaits("v", "a", csi.ClaimUnpublishing, "stop_on_client_after")
				w.wantCalls()
				time.Sleep(2 * time.Minute)
				w.wantFreed("v", "a")
				w.wantCalls("detach v from external-n1")
			})
		})
	}
}
