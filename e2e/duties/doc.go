// Package duties runs tasks of each driver through each duty of a cluster: crashes and restarts of the agent, the
// supervisor and the server, pause, update, drain, loss and return of the node. A duty is a row, a driver a column.
//
//	tasks of all drivers on the first of two nodes ──▶ duty ──▶ check each task ──▶ stop ──▶ collect ──▶ nothing left
//
// The devices of a plugin are a column, too: tasks that hold all devices of their node.
package duties
