package server_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// volumeOf creates a volume "data" on a node that then reports it.
func volumeOf(t *testing.T, s *server.Server, n *volumeNode) *nomad.HostVolume {
	t.Helper()
	req := created(nomad.HostVolume{Name: "data", PluginID: "mkdir"})
	req.Region = "global"
	var out message.HostVolumeCreateResponse
	eventually(t, func() bool { // the connection of the node is new
		return s.Call(within(t), "HostVolume.Create", req, &out) == nil && out.Volume != nil
	})
	n.has("data=" + out.Volume.ID)
	return out.Volume
}

// usesVolume returns a job that mounts the volume "data".
func usesVolume() *nomad.Job {
	j := batchJob("uses", 1)
	j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data"}}
	return j
}

func deleteVolume(t *testing.T, s *server.Server, id string, force bool) error {
	return s.Call(within(t), "HostVolume.Delete", &message.HostVolumeDeleteRequest{VolumeID: id, Force: force,
		WriteRequest: message.WriteRequest{Region: "global"}}, &message.HostVolumeDeleteResponse{})
}

// attempted waits until an evaluation of the job was processed.
func attempted(t *testing.T, s *server.Server, job string) {
	t.Helper()
	eventually(t, func() bool {
		evals := read[message.JobEvaluationsResponse](t, s, "Job.Evaluations", &message.JobSpecificRequest{JobID: job, QueryOptions: global}).Evaluations
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
	return read[message.JobAllocationsResponse](t, s, "Job.Allocations", &message.JobSpecificRequest{JobID: job, QueryOptions: global}).Allocations
}

// A job that asks for a volume while its node deletes it is not placed. When the delete has failed, it is placed at once.
// The volume and the allocation that uses it, or neither, exist at the end.
func TestDelete_JobDuringDelete(t *testing.T) {
	for name, c := range map[string]struct {
		end         func(n *volumeNode) error
		force, gone bool
	}{
		"the node deletes it":        {func(*volumeNode) error { return nil }, false, true},
		"the plugin fails":           {func(*volumeNode) error { return errors.New("the plugin failed") }, false, false},
		"the plugin fails, by force": {func(*volumeNode) error { return errors.New("the plugin failed") }, true, true},
		"the node is lost": {func(n *volumeNode) error {
			n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusDown, WriteRequest: n.write(n.jwt)}, &message.NodeUpdateResponse{})
			return errors.New("connection lost")
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := start(t, nil)
			n := joinWithVolumes(t, s.RPCAddr())
			v := volumeOf(t, s, n)
			n.deleting = func() error {
				register(t, s, usesVolume())
				attempted(t, s, "uses")
				if list := allocsOf(t, s, "uses"); len(list) != 0 {
					t.Errorf("%d allocations were placed during the delete", len(list))
				}
				return c.end(n)
			}
			if err := deleteVolume(t, s, v.ID, c.force); (err == nil) != c.gone {
				t.Errorf("delete: %v", err)
			}
			left := read[message.HostVolumeListResponse](t, s, "HostVolume.List", &message.HostVolumeListRequest{QueryOptions: global}).Volumes
			if (len(left) == 0) != c.gone {
				t.Fatalf("%d volumes after the delete", len(left))
			}
			if c.gone {
				if list := allocsOf(t, s, "uses"); len(list) != 0 {
					t.Errorf("%d allocations use the deleted volume", len(list))
				}
				return
			}
			n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.write(n.jwt)}, &message.NodeUpdateResponse{})
			n.allocs(1)
			if err := deleteVolume(t, s, v.ID, true); err == nil {
				t.Error("a volume in use was deleted")
			}
		})
	}
}

// The leader changes while the node deletes a volume. The old leader cannot write the end of the delete. The volume
// remains, no leader withholds it, and the delete can be repeated.
func TestDelete_LeaderChange(t *testing.T) {
	all := cluster(t, 3, nil)
	leader, followers := split(t, all)
	n := joinWithVolumes(t, leader.RPCAddr())
	v := volumeOf(t, leader.Server, n)
	n.deleting = func() error {
		transfer(t, all, followers[0])
		return nil
	}
	if err := deleteVolume(t, leader.Server, v.ID, false); err == nil {
		t.Error("a leader that was replaced deleted the volume")
	}
	n.deleting = func() error { return errors.New("the plugin failed") }
	for _, m := range []member{followers[0], leader} { // the old leader leads again
		transfer(t, all, m)
		eventually(t, func() bool {
			err := deleteVolume(t, m.Server, v.ID, false)
			return err != nil && len(n.calls) > 0
		})
		job := usesVolume()
		job.ID = "on-" + m.Self().Name
		register(t, m.Server, job)
		eventually(t, func() bool { return len(allocsOf(t, m.Server, job.ID)) == 1 })
		n.report(nomad.AllocClientStatusComplete, n.allocs(1)...)
	}
	n.deleting = nil
	eventually(t, func() bool { return deleteVolume(t, leader.Server, v.ID, false) == nil })
}
