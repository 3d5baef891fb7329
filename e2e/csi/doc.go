// Package csi tests CSI volumes end to end: agents, a plugin that runs as a job (e2e/examplecsi), and jobs that write and read
// the data of its volumes.
//
//	server ── client a ── plugin ─┐
//	       └─ client b ── plugin ─┴─ storage system (a directory)
//
// A rig is such a fleet. The file faults of a rig makes the plugins hang, fail or end at a call. At the end of a test all volumes
// are deleted, and a rig checks that no mount, no claim and no process is left.
//
// The tests need root.
package csi
