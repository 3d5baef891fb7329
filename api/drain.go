package api

import (
	"context"
	"fmt"
	"time"
)

// drainPoll is the longest time between two reads of the node, whose drain can end without a change of
// its allocations.
const drainPoll = 5 * time.Second

// MonitorMsgLevel is the importance of a MonitorMessage.
type MonitorMsgLevel int

// Levels of messages.
const (
	MonitorMsgLevelNormal MonitorMsgLevel = 0
	MonitorMsgLevelInfo   MonitorMsgLevel = 1
	MonitorMsgLevelWarn   MonitorMsgLevel = 2
	MonitorMsgLevelError  MonitorMsgLevel = 3
)

// MonitorMessage is a line about the progress of a drain.
type MonitorMessage struct {
	Level   MonitorMsgLevel
	Message string
}

// String returns the text.
func (m *MonitorMessage) String() string { return m.Message }

// Messagef returns a formatted message.
func Messagef(lvl MonitorMsgLevel, msg string, args ...any) *MonitorMessage {
	return &MonitorMessage{Level: lvl, Message: fmt.Sprintf(msg, args...)}
}

// MonitorDrain reports each change of the allocations of a draining node. index is the index of the
// response that started the drain. The channel is closed when the drain has ended and the
// allocations have stopped, after an error, or when ctx ends. With ignoreSys, allocations of system
// jobs need not stop.
func (n *Nodes) MonitorDrain(ctx context.Context, nodeID string, index uint64, ignoreSys bool) <-chan *MonitorMessage {
	m := &drainMonitor{nodes: n, id: nodeID, ignoreSystem: ignoreSys, out: make(chan *MonitorMessage, frameBuffer),
		status: map[string]string{}}
	go func() {
		defer close(m.out)
		if err := m.run(ctx, index); err != nil && ctx.Err() == nil {
			m.report(ctx, MonitorMsgLevelError, "Error monitoring the drain of node %q: %v", nodeID, err)
		}
	}()
	return m.out
}

// drainMonitor follows the allocations of a node.
type drainMonitor struct {
	nodes        *Nodes
	id           string
	ignoreSystem bool
	out          chan *MonitorMessage
	status       map[string]string // the reported status by allocation
	ended        bool
}

// run reads the allocations and the node until the drain has ended.
func (m *drainMonitor) run(ctx context.Context, index uint64) error {
	for {
		q := (&QueryOptions{AllowStale: true, WaitIndex: index, WaitTime: drainPoll}).WithContext(ctx)
		allocs, meta, err := m.nodes.Allocations(m.id, q)
		if err != nil {
			return err
		}
		index = meta.LastIndex
		node, _, err := m.nodes.Info(m.id, (&QueryOptions{AllowStale: true}).WithContext(ctx))
		if err != nil {
			return err
		}
		leaving := m.allocs(ctx, allocs)
		if node.DrainStrategy == nil && !m.ended {
			m.ended = true
			m.report(ctx, MonitorMsgLevelInfo, "Drain complete for node %s", m.id)
		}
		if m.ended && leaving == 0 {
			m.report(ctx, MonitorMsgLevelInfo, "All allocations on node %q have stopped", m.id)
			return nil
		}
	}
}

// allocs reports the changes since the last list, and returns how many allocations have to stop.
func (m *drainMonitor) allocs(ctx context.Context, list []*Allocation) (leaving int) {
	for _, a := range list {
		before, known := m.status[a.ID]
		m.status[a.ID] = a.ClientStatus
		if known && before != a.ClientStatus {
			m.report(ctx, MonitorMsgLevelNormal, "Alloc %q status %s -> %s", a.ID, before, a.ClientStatus)
		}
		system := a.Job != nil && a.Job.Type != nil && *a.Job.Type == JobTypeSystem
		if !a.ClientTerminalStatus() && !(m.ignoreSystem && system) &&
			(a.ServerTerminalStatus() || a.DesiredTransition.ShouldMigrate()) {
			leaving++
		}
	}
	return leaving
}

func (m *drainMonitor) report(ctx context.Context, level MonitorMsgLevel, format string, args ...any) {
	select {
	case m.out <- Messagef(level, format, args...):
	case <-ctx.Done():
	}
}
