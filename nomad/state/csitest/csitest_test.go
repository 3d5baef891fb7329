package csitest_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/state/csitest"
)

func TestRun(t *testing.T) {
	s := state.New(nil)
	n := &nomad.Node{ID: "n1", Status: nomad.NodeStatusReady}
	first := csitest.Run(t, s, csitest.Instance{Node: n, Plugin: "ebs", Kind: csi.PluginMonolith})
	csitest.Run(t, s, csitest.Instance{Node: n, Plugin: "efs", Kind: csi.PluginNode})
	snap := s.Snapshot()
	ebs, efs := snap.CSIPlugin(nil, "ebs"), snap.CSIPlugin(nil, "efs")
	if !ebs.Schedulable() || !ebs.ControllerRequired || ebs.NodesExpected != 1 || ebs.Nodes["n1"].AllocID != first {
		t.Errorf("the monolith is %+v", ebs)
	}
	if !efs.Schedulable() || efs.ControllerRequired || efs.ControllersExpected != 0 {
		t.Errorf("the node plugin is %+v", efs)
	}
}
