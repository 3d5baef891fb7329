package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/csivolumes"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// csiMethods returns the methods of CSI volumes and plugins.
func (s *Service) csiMethods() []rpc.Method {
	readsPlugins := rpc.Needs(acl.ToRead(acl.Plugins))
	writes := rpc.InOneNamespace(acl.CSIWriteVolume).And(readsPlugins)
	lists := []acl.NamespaceCapability{acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs}
	// The volumes of one request can have several namespaces.
	ofEach := rpc.On("each volume", inNamespace(acl.CSIWriteVolume)).And(readsPlugins).
		Before(somewhere(acl.CSIWriteVolume).And(readsPlugins))
	return []rpc.Method{
		rpc.Handle("CSIPlugin.List", rpc.Token, rpc.Leader, s.csi.ListPlugins).
			Needs(rpc.Needs(acl.Question{Kind: acl.Plugins, Rights: []string{"list"}})),
		rpc.Handle("CSIPlugin.Get", rpc.Token, rpc.Leader, s.csi.Plugin).Needs(readsPlugins),
		rpc.Handle("CSIPlugin.Delete", rpc.Management, rpc.Leader, s.csi.DeletePlugin),
		rpc.Handle("CSIVolume.List", rpc.Token, rpc.Leader, s.csi.List).Needs(rpc.InSomeNamespace(lists...)),
		rpc.Handle("CSIVolume.Get", rpc.Token, rpc.Leader, s.csi.Get).
			Needs(rpc.InOneNamespace(acl.CSIReadVolume, acl.CSIMountVolume, acl.ReadJob)),
		rpc.Handle("CSIVolume.Register", rpc.Token, rpc.Leader, s.csi.Register).Needs(ofEach),
		rpc.Handle("CSIVolume.Create", rpc.Token, rpc.Leader, s.csi.Create).Needs(ofEach),
		rpc.Handle("CSIVolume.Deregister", rpc.Token, rpc.Leader, s.csi.Deregister).Needs(rpc.InOneNamespace(acl.CSIWriteVolume)),
		rpc.Handle("CSIVolume.Delete", rpc.Token, rpc.Leader, s.csi.Delete).Needs(writes),
		rpc.Handle("CSIVolume.ListExternal", rpc.Token, rpc.Leader, s.csi.ListExternal).Needs(rpc.InOneNamespace(lists...)),
		rpc.Handle("CSIVolume.ListSnapshots", rpc.Token, rpc.Leader, s.csi.ListSnapshots).Needs(rpc.InOneNamespace(lists...)),
		rpc.Handle("CSIVolume.CreateSnapshot", rpc.Token, rpc.Leader, s.csi.CreateSnapshot).Needs(writes),
		rpc.Handle("CSIVolume.DeleteSnapshot", rpc.Token, rpc.Leader, s.csi.DeleteSnapshot).Needs(writes),
		rpc.Handle("CSIVolume.Claim", rpc.NodeOnly, rpc.Leader, s.csi.Claim),
		rpc.Handle("CSIVolume.Unpublish", rpc.Token, rpc.Leader, s.csi.Unpublish).
			Needs(rpc.InOneNamespace(acl.CSIMountVolume).And(readsPlugins).Or(rpc.AnyNode)),
		rpc.Handle("CSIVolume.Reseal", rpc.Management, rpc.Leader, s.csi.Reseal), // by the leader and core jobs
	}
}

// clientCSIMethods returns the methods of CSI plugins that are relayed to nodes.
func (s *Service) clientCSIMethods() []rpc.Method {
	return []rpc.Method{
		csivolumes.ToController[message.ClientCSIControllerAttachVolumeRequest,
			message.ClientCSIControllerAttachVolumeResponse](s.csi, "ControllerAttachVolume"),
		csivolumes.ToController[message.ClientCSIControllerDetachVolumeRequest,
			message.ClientCSIControllerDetachVolumeResponse](s.csi, "ControllerDetachVolume"),
		csivolumes.ToController[message.ClientCSIControllerValidateVolumeRequest,
			message.ClientCSIControllerValidateVolumeResponse](s.csi, "ControllerValidateVolume"),
		csivolumes.ToController[message.ClientCSIControllerCreateVolumeRequest,
			message.ClientCSIControllerCreateVolumeResponse](s.csi, "ControllerCreateVolume"),
		csivolumes.ToController[message.ClientCSIControllerExpandVolumeRequest,
			message.ClientCSIControllerExpandVolumeResponse](s.csi, "ControllerExpandVolume"),
		csivolumes.ToController[message.ClientCSIControllerDeleteVolumeRequest,
			message.ClientCSIControllerDeleteVolumeResponse](s.csi, "ControllerDeleteVolume"),
		csivolumes.ToController[message.ClientCSIControllerListVolumesRequest,
			message.ClientCSIControllerListVolumesResponse](s.csi, "ControllerListVolumes"),
		csivolumes.ToController[message.ClientCSIControllerCreateSnapshotRequest,
			message.ClientCSIControllerCreateSnapshotResponse](s.csi, "ControllerCreateSnapshot"),
		csivolumes.ToController[message.ClientCSIControllerDeleteSnapshotRequest,
			message.ClientCSIControllerDeleteSnapshotResponse](s.csi, "ControllerDeleteSnapshot"),
		csivolumes.ToController[message.ClientCSIControllerListSnapshotsRequest,
			message.ClientCSIControllerListSnapshotsResponse](s.csi, "ControllerListSnapshots"),
		csivolumes.ToNode[message.ClientCSINodeDetachVolumeRequest, message.ClientCSINodeDetachVolumeResponse](s.csi, "NodeDetachVolume",
			func(r *message.ClientCSINodeDetachVolumeRequest) string { return r.NodeID }),
		csivolumes.ToNode[message.ClientCSINodeExpandVolumeRequest, message.ClientCSINodeExpandVolumeResponse](s.csi, "NodeExpandVolume",
			func(r *message.ClientCSINodeExpandVolumeRequest) string {
				if r.Claim == nil {
					return ""
				}
				return r.Claim.NodeID
			}),
	}
}

// volumeMethods returns the methods of dynamic host volumes.
func (s *Service) volumeMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("HostVolume.Create", rpc.Token, rpc.Leader, s.volumes.Create).
			Needs(rpc.On("the volume", inNamespace(acl.HostVolumeCreate)).Before(rpc.InOneNamespace(acl.HostVolumeCreate))),
		rpc.Handle("HostVolume.Register", rpc.Token, rpc.Leader, s.volumes.Register).
			Needs(rpc.On("the volume", inNamespace(acl.HostVolumeRegister)).Before(rpc.InOneNamespace(acl.HostVolumeRegister))),
		rpc.Handle("HostVolume.Delete", rpc.Token, rpc.Leader, s.volumes.Delete).Needs(rpc.InOneNamespace(acl.HostVolumeDelete)),
		rpc.Handle("HostVolume.Get", rpc.Token, rpc.Leader, s.volumes.Get).Needs(rpc.InOneNamespace(acl.HostVolumeRead)),
		rpc.Handle("HostVolume.List", rpc.Token, rpc.Leader, s.volumes.List).Needs(rpc.InNamespace(acl.HostVolumeRead)),
		rpc.Handle("TaskGroupHostVolumeClaim.List", rpc.Token, rpc.Leader, s.volumes.ListClaims).Needs(rpc.InNamespace(acl.HostVolumeRead)),
		rpc.Handle("TaskGroupHostVolumeClaim.Delete", rpc.Token, rpc.Leader, s.volumes.DeleteClaim).
			Needs(rpc.On("the claim", inNamespace(acl.HostVolumeDelete)).Before(somewhere(acl.HostVolumeDelete))),
		rpc.Handle("ClientHostVolume.Create", rpc.ServerOnly, rpc.Here, s.volumes.ClientCreate),
		rpc.Handle("ClientHostVolume.Register", rpc.ServerOnly, rpc.Here, s.volumes.ClientRegister),
		rpc.Handle("ClientHostVolume.Delete", rpc.ServerOnly, rpc.Here, s.volumes.ClientDelete),
	}
}
