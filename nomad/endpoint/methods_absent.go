package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// absentMethods returns the methods of features that are not implemented. Each has the access rule of the method in Nomad 2.0,
// so that a caller without the right gets 403. Other callers get 501 with the name of the feature.
//
// Keyring.Get would answer the plaintext of a root key. Servers of Nomad call it for a key whose wrapped material is not
// in the Raft log, or that they cannot unwrap. Here each key is in the log with its wrapped material, so only a server
// without the KMS of the region would need the answer, and for it the answer would bypass the KMS.
func absentMethods() []rpc.Method {
	return []rpc.Method{rpc.Refuse("Keyring.Get", rpc.ServerOnly, handler.NotImplemented("root keys outside Raft"))}
}

// inNS requires one of the rights in the namespace of the request.
func inNS(ops ...acl.NamespaceCapability) rpc.Check { return rpc.InOneNamespace(ops...) }
