// Package taskrunner runs one task from its placement to its end.
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
// A task with a stored handle starts in recovering. The phase ends when the driver has
// recovered the process or has returned drivers.ErrTaskNotFound. Other errors are retried,
// since the process may be running.
//
// A kill first stops the running process. The exit then leads to terminal, whatever the restart
// policy is.
//
// A task that its schedule or a user pauses waits in pending. A running one is stopped first, and passes
// exited and restarting without a delay. The restart policy does not count it. One that is paused while its hooks prepare
// it does the same, and they prepare it again later.
//
// The hooks of client/taskhook run around the process, in their order. Before the driver starts
// the process, one commit of the state database stores the hooks' state and the ID of the
// start. Nothing else waits for the disk until the task is done. When the agent shuts down, the
// process keeps running, and the next agent recovers it by the handle.
//
// Goroutines: Run, the driver's wait while a process runs, and the Background functions of the
// hooks. All end with Run. The package makes no decision about other tasks and never calls a
// server.
package taskrunner

import "fmt"

// Phase is the phase of a task's lifecycle.
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

// Move is an event that changes the phase of a task.
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

// moves holds all valid transitions.
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
		return "", fmt.Errorf("task in phase %s: invalid move %s", from, move)
	}
	return to, nil
}
