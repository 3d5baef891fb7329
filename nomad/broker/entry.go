package broker

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// State is the state of an evaluation in the broker.
type State string

// States of an evaluation in the broker.
const (
	Gone    State = ""
	Delayed State = "delayed"
	Pending State = "pending"
	Ready   State = "ready"
	Unacked State = "unacked"
	Failed  State = "failed"
)

// Event moves an evaluation from one state to the next.
type Event string

// Events of an evaluation in the broker.
const (
	Delay   Event = "delay"   // it has a wait time
	Hold    Event = "hold"    // another one holds the job
	Offer   Event = "offer"   // a worker may dequeue it
	Deliver Event = "deliver" // a worker dequeued it
	Ack     Event = "ack"     // the worker is done
	Nack    Event = "nack"    // the worker returned it, or timed out
	GiveUp  Event = "give up" // it reached the delivery limit
	Cancel  Event = "cancel"  // another one of the job replaces it, or it was canceled in state
)

type edge struct {
	from  State
	event Event
}

var moves = map[edge]State{
	{Gone, Delay}:     Delayed,
	{Gone, Hold}:      Pending,
	{Gone, Offer}:     Ready,
	{Delayed, Hold}:   Pending,
	{Delayed, Offer}:  Ready,
	{Delayed, Cancel}: Gone,
	{Pending, Offer}:  Ready,
	{Pending, Cancel}: Gone,
	{Ready, Deliver}:  Unacked,
	{Unacked, Ack}:    Gone,
	{Unacked, Nack}:   Delayed,
	{Unacked, GiveUp}: Failed,
	{Failed, Deliver}: Unacked,
}

// Next returns the state after event, or an error if there is no such move.
func Next(from State, event Event) (State, error) {
	to, ok := moves[edge{from, event}]
	if !ok {
		return from, fmt.Errorf("evaluation is %q: no move on %q", from, event)
	}
	return to, nil
}

// entry is an evaluation in the broker.
type entry struct {
	eval       *nomad.Evaluation
	job        nomad.NamespacedID
	seq        uint64
	state      State
	deliveries int
	token      string            // while unacked
	timer      *time.Timer       // while delayed or unacked
	paused     bool              // while unacked: its plan is queued and the timer is stopped
	due        time.Time         // when the timer fires
	requeue    *nomad.Evaluation // to be enqueued after the ack
	came       time.Time         // when it was enqueued
	delivered  time.Time         // while unacked
}

// move makes a move. The caller ensures that it exists.
func (e *entry) move(ev Event) {
	to, err := Next(e.state, ev)
	if err != nil {
		panic("broker: bug: " + e.eval.ID + ": " + err.Error())
	}
	e.state = to
}

func (e *entry) stopTimer() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// before orders ready evaluations: by priority, then by creation, then by arrival. A new leader loads
// the evaluations of state in another order than that of their creation.
func (e *entry) before(o *entry) bool {
	if e.eval.Priority != o.eval.Priority {
		return e.eval.Priority > o.eval.Priority
	}
	if e.eval.CreateIndex != o.eval.CreateIndex {
		return e.eval.CreateIndex < o.eval.CreateIndex
	}
	return e.seq < o.seq
}

// supersedes orders pending evaluations of one job: by priority, then newest first.
func (e *entry) supersedes(o *entry) bool {
	if e.eval.Priority != o.eval.Priority {
		return e.eval.Priority > o.eval.Priority
	}
	if e.eval.ModifyIndex != o.eval.ModifyIndex {
		return e.eval.ModifyIndex > o.eval.ModifyIndex
	}
	return e.seq > o.seq
}

// readyQueue is a heap of entries by before.
type readyQueue struct{ items []*entry }

func (q *readyQueue) push(e *entry) { heap.Push((*entryHeap)(q), e) }
func (q *readyQueue) pop() *entry   { return heap.Pop((*entryHeap)(q)).(*entry) }

func (q *readyQueue) peek() *entry {
	if q == nil || len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// entryHeap is the container/heap view of a readyQueue.
type entryHeap readyQueue

func (h *entryHeap) Len() int           { return len(h.items) }
func (h *entryHeap) Less(i, j int) bool { return h.items[i].before(h.items[j]) }
func (h *entryHeap) Swap(i, j int)      { h.items[i], h.items[j] = h.items[j], h.items[i] }
func (h *entryHeap) Push(x any)         { h.items = append(h.items, x.(*entry)) }

func (h *entryHeap) Pop() any {
	last := len(h.items) - 1
	e := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return e
}
