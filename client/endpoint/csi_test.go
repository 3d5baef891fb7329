package endpoint_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// connected returns a server with a node that can be called.
func connected(t *testing.T) (*clienttest.Server, *clienttest.Node) {
	t.Helper()
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	f.Until(t, "the node is connected", func() bool {
		return f.RPC.NodeCall(t.Context(), n.NodeID(), "NodeIdentity.Session", &message.NodeSpecificRequest{NodeID: n.NodeID()},
			&message.NodeSessionResponse{}) == nil
	})
	return f, n
}

// A node without the plugin answers each call of a controller with an error after which servers ask another node.
func TestCSI_NoController(t *testing.T) {
	f, n := connected(t)
	query := message.CSIControllerQuery{PluginID: "p", ControllerNodeID: n.NodeID()}
	for name, req := range map[string]rpc.Request{
		"AttachVolume":   &message.ClientCSIControllerAttachVolumeRequest{CSIControllerQuery: query},
		"DetachVolume":   &message.ClientCSIControllerDetachVolumeRequest{CSIControllerQuery: query},
		"ValidateVolume": &message.ClientCSIControllerValidateVolumeRequest{CSIControllerQuery: query},
		"CreateVolume":   &message.ClientCSIControllerCreateVolumeRequest{CSIControllerQuery: query},
		"ExpandVolume":   &message.ClientCSIControllerExpandVolumeRequest{CSIControllerQuery: query},
		"DeleteVolume":   &message.ClientCSIControllerDeleteVolumeRequest{CSIControllerQuery: query},
		"ListVolumes":    &message.ClientCSIControllerListVolumesRequest{CSIControllerQuery: query},
		"CreateSnapshot": &message.ClientCSIControllerCreateSnapshotRequest{CSIControllerQuery: query},
		"DeleteSnapshot": &message.ClientCSIControllerDeleteSnapshotRequest{CSIControllerQuery: query},
		"ListSnapshots":  &message.ClientCSIControllerListSnapshotsRequest{CSIControllerQuery: query},
	} {
		err := f.RPC.NodeCall(t.Context(), n.NodeID(), "CSI.Controller"+name, req, &struct{}{})
		if err == nil || !strings.Contains(err.Error(), "CSI.Controller"+name+": "+csi.ErrRetryable.Error()+": ") {
			t.Errorf("%s: %v, want a retryable error", name, err)
		}
	}
}

// The calls of a node plugin need the volume and its user. A volume that is not mounted needs no plugin to be detached.
func TestCSI_Node(t *testing.T) {
	f, n := connected(t)
	for name, c := range map[string]struct {
		method string
		req    rpc.Request
		want   string
	}{
		"no plugin": {"NodeDetachVolume", &message.ClientCSINodeDetachVolumeRequest{VolumeID: "v", AllocID: "a"}, "PluginID is required"},
		"no volume": {"NodeDetachVolume", &message.ClientCSINodeDetachVolumeRequest{PluginID: "p", AllocID: "a"}, "VolumeID is required"},
		"no allocation": {"NodeDetachVolume", &message.ClientCSINodeDetachVolumeRequest{PluginID: "p", VolumeID: "v"},
			"AllocID is required"},
		"not mounted": {"NodeDetachVolume", &message.ClientCSINodeDetachVolumeRequest{PluginID: "p", VolumeID: "v", AllocID: "a"}, ""},
		"expand nothing": {"NodeExpandVolume", &message.ClientCSINodeExpandVolumeRequest{VolumeID: "v", Claim: &csi.Claim{}},
			"PluginID and VolumeID are required"},
		"expand without a claim": {"NodeExpandVolume", &message.ClientCSINodeExpandVolumeRequest{PluginID: "p", VolumeID: "v"},
			"Claim is required"},
	} {
		err := f.RPC.NodeCall(t.Context(), n.NodeID(), "CSI."+c.method, c.req, &struct{}{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "CSI."+c.method+": "+c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
