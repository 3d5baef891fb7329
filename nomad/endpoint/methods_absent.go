package endpoint

import (
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// absentMethods returns the methods of features that are not implemented yet. Each has the
// access rule of the method in Nomad 2.0, so that a caller without the right gets 403. Other
// callers get 501 with the name of the feature. If the right is on an object with an ID, it is
// checked in the namespace of the request.
func absentMethods() []rpc.Method {
	return slices.Concat(absentCSI(), absentKeyring())
}

// inNS requires one of the rights in the namespace of the request.
func inNS(ops ...acl.NamespaceCapability) rpc.Check { return rpc.InOneNamespace(ops...) }

// absentRows returns the methods of one feature that have the same rule and check.
func absentRows(feature string, rule rpc.Rule, check rpc.Check, names ...string) []rpc.Method {
	var out []rpc.Method
	for _, name := range names {
		out = append(out, rpc.Refuse(name, rule, handler.NotImplemented(feature)).Needs(check))
	}
	return out
}

func absentCSI() []rpc.Method {
	const feature = "CSI volumes"
	plugin := rpc.Needs(acl.ToRead(acl.Plugins))
	list := inNS(acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs)
	return slices.Concat(
		absentRows(feature, rpc.Management, rpc.Check{}, "CSIPlugin.Delete"),
		absentRows(feature, rpc.Token, plugin, "CSIPlugin.Get"),
		absentRows(feature, rpc.Token, inNS(acl.CSIWriteVolume).And(plugin), "CSIVolume.Create", "CSIVolume.CreateSnapshot",
			"CSIVolume.Delete", "CSIVolume.DeleteSnapshot", "CSIVolume.Register"),
		absentRows(feature, rpc.Token, inNS(acl.CSIWriteVolume), "CSIVolume.Deregister"),
		absentRows(feature, rpc.Token, inNS(acl.CSIReadVolume, acl.CSIMountVolume, acl.ReadJob), "CSIVolume.Get"),
		absentRows(feature, rpc.Token, list, "CSIVolume.ListExternal", "CSIVolume.ListSnapshots"),
		absentRows(feature, rpc.NodeOnly, rpc.Check{}, "CSIVolume.Claim"),
		absentRows(feature, rpc.Token, inNS(acl.CSIMountVolume).And(plugin).Or(rpc.AnyNode), "CSIVolume.Unpublish"),
		absentRows(feature, rpc.ServerOnly, rpc.Check{}, "ClientCSI.ControllerAttachVolume", "ClientCSI.ControllerCreateSnapshot",
			"ClientCSI.ControllerCreateVolume", "ClientCSI.ControllerDeleteSnapshot", "ClientCSI.ControllerDeleteVolume",
			"ClientCSI.ControllerDetachVolume", "ClientCSI.ControllerExpandVolume", "ClientCSI.ControllerListSnapshots",
			"ClientCSI.ControllerListVolumes", "ClientCSI.ControllerValidateVolume", "ClientCSI.NodeDetachVolume", "ClientCSI.NodeExpandVolume"),
	)
}

// absentKeyring returns the methods of root keys.
//
// Keyring.Get would answer the plaintext of a root key. Servers of Nomad call it for a key whose wrapped material is not
// in the Raft log, or that they cannot unwrap. Here each key is in the log with its wrapped material, so only a server
// without the KMS of the region would need the answer, and for it the answer would bypass the KMS.
func absentKeyring() []rpc.Method {
	return absentRows("root keys outside Raft", rpc.ServerOnly, rpc.Check{}, "Keyring.Get")
}
