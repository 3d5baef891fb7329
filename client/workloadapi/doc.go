// Package workloadapi serves the SPIFFE Workload API to tasks: the gRPC service
// spiffe.workload.SpiffeWorkloadAPI on a unix socket per task.
//
//	task ──connect──▶ attest (kernel: PID, control group) ──▶ API ─┬─▶ Source: X.509-SVID of the task
//	                        └─ other group: closed                 ├─▶ tokens: JWT-SVIDs by audience
//	                                                               └─▶ Bundles: of the node
//
// A Server serves the socket of one task. The kernel identifies the process that connected. Its control
// group must be the task's, or below it. A process of another task is refused even if it has the
// socket, so file permissions do not matter.
//
// The key pair of a task is made here. Only the task gets the private key; it never leaves the node. A
// Source renews the X.509-SVID at half of its lifetime, and at once if no CA of the bundle has signed
// it. Streams receive each new one. After an error the old SVID stays in use, and no error ever stops a
// task.
//
// Goroutines: Bundles.Run for the node, Source.Run and the gRPC server for each task. No key and no
// token is logged or stored on disk.
package workloadapi
