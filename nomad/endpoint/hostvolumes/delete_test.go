package hostvolumes_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// volumeOf creates a volume "data" on a node that then reports it.
func volumeOf(t *testing.T, s *server.Server, n *volumeNode) *hostvolume.Volume {
	t.Helper()
	req := created(hostvolume.Volume{Name: "data", PluginID: "mkdir"})
	req.Region = "global"
	var out message.HostVolumeCreateResponse
	servertest.Eventually(t, func() bool { // the connection of the node is new
		return s.Call(servertest.Context(t), "HostVolume.Create", req, &out) == nil && out.Volume != nil
	})
	n.has("data=" + out.Volume.ID)
	return out.Volume
}

// usesVolume returns a job that mounts the volume "data".
func usesVolume() *nomad.Job {
	j := servertest.BatchJob("uses", 1)
	j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
	return j
}

func deleteVolume(t *testing.T, s *server.Server, id string, force bool) error {
	return s.Call(servertest.Context(t), "HostVolume.Delete", &message.HostVolumeDeleteRequest{VolumeID: id, Force: force,
		WriteRequest: message.WriteRequest{Region: "global"}}, &message.HostVolumeDeleteResponse{})
}

// attempted waits until an evaluation of the job was processed.
func attempted(t *testing.T, s *server.Server, job string) {
	t.Helper()
	servertest.Eventually(t, func() bool {
		evals := servertest.Read[message.JobEvaluationsResponse](t, s, "Job.Evaluations",
			&message.JobSpecificRequest{JobID: job, QueryOptions: servertest.Global}).Evaluations
		for _, e := range evals {
			if e.Status == nomad.EvalStatusComplete || e.Status == nomad.EvalStatusFailed {
				return true
			}
		}
		return false
	})
}

func allocsOf(t *testing.T, s *server.Server, job string) []*nomad.AllocListStub {
	t.Helper()
	return servertest.Read[message.JobAllocationsResponse](t, s, "Job.Allocations",
		&message.JobSpecificRequest{JobID: job, QueryOptions: servertest.Global}).Allocations
}

// A job that asks for a volume while its node deletes it is not placed. When the delete has failed, it is placed at once.
// The volume and the allocation that uses it, or neither, exist at the end.
func TestHostVolumeDelete_JobMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		end         func(n *volumeNode) error
		force, gone bool
	}{
		"the node deletes it":        {func(*volumeNode) error { return nil }, false, true},
		"the plugin fails":           {func(*volumeNode) error { return errors.New("the plugin failed") }, false, false},
		"the plugin fails, by force": {func(*volumeNode) error { return errors.New("the plugin failed") }, true, true},
		"the node is lost": {func(n *volumeNode) error {
			n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusDown,
				WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
			return errors.New("connection lost")
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := servertest.Start(t, nil)
			n := joinWithVolumes(t, s.RPCAddr())
			v := volumeOf(t, s, n)
			n.deleting = func() error {
				servertest.Register(t, s, usesVolume())
				attempted(t, s, "uses")
				if list := allocsOf(t, s, "uses"); len(list) != 0 {
					t.Errorf("%d allocations were placed during the delete", len(list))
				}
				return c.end(n)
			}
			if err := deleteVolume(t, s, v.ID, c.force); (err == nil) != c.gone {
				t.Errorf("delete: %v", err)
			}
			left := servertest.Read[message.HostVolumeListResponse](t, s, "HostVolume.List",
				&message.HostVolumeListRequest{QueryOptions: servertest.Global}).Volumes
			if (len(left) == 0) != c.gone {
				t.Fatalf("%d volumes after the delete", len(left))
			}
			if c.gone {
				if list := allocsOf(t, s, "uses"); len(list) != 0 {
					t.Errorf("%d allocations use the deleted volume", len(list))
				}
				return
			}
			n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
				WriteRequest: n.Write(n.JWT)}, &message.NodeUpdateResponse{})
			n.Allocs(1)
			if err := deleteVolume(t, s, v.ID, true); err == nil {
				t.Error("a volume in use was deleted")
			}
		})
	}
}

// The leader changes while the node deletes a volume. The old leader cannot write the end of the delete. The volume
// remains, no leader withholds it, and the delete can be repeated.
func TestHostVolumeDelete_LeaderChange(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	n := joinWithVolumes(t, leader.RPCAddr())
	v := volumeOf(t, leader.Server, n)
	n.deleting = func() error {
		servertest.TransferLeadership(t, all, followers[0])
		return nil
	}
	if err := deleteVolume(t, leader.Server, v.ID, false); err == nil {
		t.Error("a leader that was replaced deleted the volume")
	}
	n.deleting = func() error { return errors.New("the plugin failed") }
	for _, m := range []servertest.Member{followers[0], leader} { // the old leader leads again
		servertest.TransferLeadership(t, all, m)
		servertest.Eventually(t, func() bool {
			err := deleteVolume(t, m.Server, v.ID, false)
			return err != nil && len(n.calls) > 0
		})
		job := usesVolume()
		job.ID = "on-" + m.Self().Name
		servertest.Register(t, m.Server, job)
		servertest.Eventually(t, func() bool { return len(allocsOf(t, m.Server, job.ID)) == 1 })
		n.Report(nomad.AllocClientStatusComplete, n.Allocs(1)...)
	}
	n.deleting = nil
	servertest.Eventually(t, func() bool { return deleteVolume(t, leader.Server, v.ID, false) == nil })
}
