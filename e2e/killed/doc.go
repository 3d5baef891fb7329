// Package killed kills agents and supervisors with SIGKILL at each step of the life of an allocation, and
// checks that the next agent continues and that nothing remains afterwards.
//
//	step reached ──▶ held ──kill, by the test──▶ released ──▶ next agent ──▶ running ──▶ purged ──▶ nothing left
//
// A step is reached at an edge of the product, where other programs take part: a CNI plugin, a host volume plugin, or
// a connection to a server or another node. A gate (gate_test.go) or a wire (wire_test.go) of the test holds it there.
// So the tests do not depend on time, and the product has no code for them.
//
// Each node runs a bystander, an allocation that is never stopped. Its process, network and rules must
// survive every kill. What exists in addition to it at the end is reported by name (left_test.go).
//
// The tests need what those of e2e/bridge need, and run in a network namespace of their own in the same way.
package killed
