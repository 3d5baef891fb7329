// Package e2e tests the product from the view of its users. Scripts under testdata/script run real
// commands against real agents, each on free ports and with its own directory. The file
// commands_test.go lists the script commands in addition to those of testscript.
//
// Go tests cover what a script cannot, by subject:
//
//	e2e/sdk        the official SDK, and our package api beside it; e2e/ecosystem: other clients of Nomad
//	e2e/jobs       what a job may contain: tasks, drivers, artifacts, volumes, networks, services
//	e2e/nodes      several nodes and servers: drain, migration, membership, TLS
//	e2e/csi        CSI volumes and plugins, with agents, plugins and leaders that are killed
//	e2e/crash      agents killed, stopped or damaged; e2e/killed: at each step of an allocation
//	e2e/identity   tokens over their life; SPIFFE, single sign-on, trust of other services
//	e2e/security   hostile callers, jobs and tasks; e2e/attack: a table of operations; e2e/access: who may call what
//	e2e/docs       documentation and what is generated for it; e2e/site: the documentation site
//	e2e/ui         pages in a browser, with e2e/chromium; e2e/bridge: networks of groups; e2e/guest: other kernels
//	e2e/faults     random histories under faults (build tag faults)
//
// The program under test is the test binary, which acts as nomad or its companion when it is
// started under those names. Package e2e/harness has the helpers of these tests, and e2e/cluster
// starts the processes. e2e/exampledriver is a task driver for them, e2e/exampledevice a device plugin,
// and e2e/examplecsi a CSI plugin. e2e/bench measures. Every wait is bounded.
package e2e
