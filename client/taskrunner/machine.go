// Package taskrunner runs one task from placement to its end.
//
//	           ┌──────────────Due────────────────┐
//	           ▼                                 │
//	(gate) pending ──Started──▶ running ──Exit─▶ exited ──Retry──▶ restarting
//	         │ │                                 ▲ │                  │
//	         │ └──────────StartFailed────────────┘ └──End──▶ terminal ◀┤
//	         └────────────────────Kill─────────────────────────────▲──┘Kill
//
//	recovering ──Recovered──▶ running
//	   │  └──────Lost───────▶ exited
//	   └────────Unstarted───▶ pending
//
// A task with a stored handle begins in recovering. The phase ends when the driver has
// found the process, or has answered that it does not know the task
// (drivers.ErrTaskNotFound). Any other error is retried: the process may be running.
//
// A kill while the task runs stops its process first: the exit then ends in
// terminal whatever the restart policy says.
//
// Around the process act the hooks of client/taskhook, in their order. Before the
// driver is asked to start, one commit of the state database holds what a later
// agent needs (state of the hooks, ID of the start); nothing else waits for the
// disk until the task is over. An agent that shuts down leaves the process alone;
// the next one finds it by its handle.
//
// Goroutines: Run, the driver's wait while a process runs, and the Background
// functions of the hooks, all of which end with Run. It decides nothing about
// other tasks and never talks to a server.
package taskrunner

import "fmt"

// Phase is where a task stands in its life.
type Phase string

// The phases of a task.
const (
	Recovering Phase = "recovering"
	Pending    Phase = "pending"
	Running    Phase = "running"
	Exited     Phase = "exited"
	Restarting Phase = "restarting"
	Terminal   Phase = "terminal"
)

// Move is what happens to a task.
type Move string

// The moves between phases.
const (
	Recovered   Move = "Recovered"
	Lost        Move = "Lost"
	Unstarted   Move = "Unstarted"
	Started     Move = "Started"
	StartFailed Move = "StartFailed"
	Exit        Move = "Exit"
	Retry       Move = "Retry"
	Due         Move = "Due"
	End         Move = "End"
	Kill        Move = "Kill"
)

type edge struct {
	from Phase
	move Move
}

// moves is every transition there is.
var moves = map[edge]Phase{
	{Recovering, Recovered}: Running,
	{Recovering, Lost}:      Exited,
	{Recovering, Unstarted}: Pending,
	{Pending, Started}:      Running,
	{Pending, StartFailed}:  Exited,
	{Pending, Kill}:         Terminal,
	{Running, Exit}:         Exited,
	{Exited, Retry}:         Restarting,
	{Exited, End}:           Terminal,
	{Restarting, Due}:       Pending,
	{Restarting, Kill}:      Terminal,
}

// Next returns the phase that a move leads to.
func Next(from Phase, move Move) (Phase, error) {
	to, ok := moves[edge{from, move}]
	if !ok {
		return "", fmt.Errorf("a task that is %s cannot take %s", from, move)
	}
	return to, nil
}
