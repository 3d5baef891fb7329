// Package duties tests that tasks of each driver survive, or move, in each duty of a cluster: crashes and restarts of
// the agent, the supervisor and the server, pause, update, drain, and a node that fails and comes back.
//
//	tasks of all drivers on the first of two nodes ──▶ duty ──▶ check each task ──▶ stop ──▶ collect ──▶ nothing left
//
// A duty is a row of TestDuties, a driver is a column of subjects. One column has tasks that hold all devices of their
// node. To add a driver, add an element to subjects; to add a duty, a row and a method of fleet.
package duties
