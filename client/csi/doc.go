// Package csi calls one CSI plugin of this node over its socket. A Plugin has a method for each call of the CSI specification
// that volumes need. It takes and returns the words of packages nomad and message:
//
//	Dial ─▶ Plugin ─▶ Probe, Info, Traits, ControllerInfo, NodeInfo     health and description
//	                ├▶ AttachVolume, CreateVolume, ListSnapshots, ...   service Controller
//	                └▶ NodeStage, NodePublish, NodeUnpublish, ...       service Node
//
// A plugin may be hostile, so the package limits what it can do to the agent:
//
//   - The socket is opened below its directory without following a link or crossing a mount. The agent connects to the object
//     that it checked, so a plugin cannot lead the agent to the socket of another program (socket.go).
//   - Each call has a time limit. An answer has limits of bytes and of parts, which are checked before it is decoded. An answer
//     that exceeds them fails its call; other calls go on (codec.go).
//   - Strings, maps, lists and numbers of answers are checked. A volume without an ID, or the snapshot of another volume, is an
//     error (answer.go).
//   - The texts of errors are shortened. csi.Hide of package nomad/csi replaces the values of secrets and the mount flags of the
//     request in them.
//
// A call is repeated at most three times if the plugin is not available or its resources are exhausted.
//
// The package never decides which plugin or volume is used, and never logs. It mounts nothing. gRPC has goroutines for a
// connection until Close; the package starts none.
package csi
