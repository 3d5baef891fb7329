package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// volumeMethods returns the methods of dynamic host volumes, and the lists of CSI volumes and plugins, which are empty.
func (s *Service) volumeMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("CSIPlugin.List", rpc.Token, rpc.Leader, s.plugins.List).
			Needs(rpc.Needs(acl.Question{Kind: acl.Plugins, Rights: []string{"list"}})),
		rpc.Handle("CSIVolume.List", rpc.Token, rpc.Leader, s.plugins.ListVolumes).
			Needs(rpc.InSomeNamespace(acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs)),
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
