// Package killed kills agents and supervisors with SIGKILL at each step of the life of an allocation. It
// checks that the next agent continues, and that nothing remains afterwards.
//
//	step reached ──▶ held ──kill, by the test──▶ released ──▶ next agent ──▶ running ──▶ purged ──▶ nothing left
//
// A step is a call of another program by the agent: of a CNI plugin, a host volume plugin, a server or another node.
// The test holds it at a gate or a wire. A gate is a wait in the script of the plugin (gate_test.go). A wire is a
// proxy of the connection (wire_test.go). So the tests do not depend on time, and the agent has no code for them.
//
// Each node runs a bystander, an allocation that is never stopped. Its process, network and rules must
// survive every kill. What exists in addition to it at the end is reported by name (left_test.go).
//
// Each step kills the agent in one scene, and the supervisor alone or both in another. KILLED=all runs all three.
//
// The tests need what those of e2e/bridge need, and run in a network namespace of their own in the same way.
package killed
